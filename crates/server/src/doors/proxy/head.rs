//! Request heads: finds the host, and builds the head that the upstream gets.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
    VIA,
};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri, Version};
use hyper::body::Body;
use hyper::body::Bytes;

use crate::doors::shared::Problem;
use crate::upstreams::forwarded::{self, Hop};
use crate::upstreams::hops;
use crate::upstreams::upload::Upload;
use tidegate_request::{Authority, Path};

/// Tells this process from other proxies of the same name, so that a request that comes back is noticed.
static OWN_MARK: LazyLock<String> =
    LazyLock::new(|| format!("tidegate ({:016x})", RandomState::new().hash_one(VIA.as_str())));

/// The `Via` of requests to upstreams, by [`protocol`].
static OWN_VIA: LazyLock<[Option<HeaderValue>; 4]> = LazyLock::new(|| {
    PROTOCOLS.map(|protocol| HeaderValue::try_from(format!("{protocol} {}", *OWN_MARK)).ok())
});

const PROTOCOLS: [&str; 4] = ["1.0", "1.1", "2.0", "3.0"];

/// Hop-by-hop requests of the client, read before their headers are removed.
#[derive(Debug)]
pub(super) struct HopHeaders {
    /// Whether the connection should become a WebSocket.
    pub(super) wants_websocket: bool,
    trailers: bool,
    /// Whether the client waits for `100 Continue`.
    pub(super) expects_continue: bool,
}

/// The host of a request, in the spelling that the routes have matched. Rejects a request that two servers could read as
/// for different hosts.
pub(super) fn host(parts: &Parts) -> Result<Option<HeaderValue>, Problem> {
    match Authority::of_request(parts)? {
        // An authority is always a valid header value.
        Some(authority) => Ok(HeaderValue::try_from(authority.to_string()).ok()),
        None if parts.version < Version::HTTP_11 => Ok(None),
        None => Err(Problem::bad_field("host", "is missing")),
    }
}

/// Reads and removes the hop-by-hop headers.
pub(super) fn strip(parts: &mut Parts, has_body: bool) -> HopHeaders {
    let headers = &mut parts.headers;
    let may_upgrade = parts.version == Version::HTTP_11 && parts.method == Method::GET && !has_body;
    let hop_headers = HopHeaders {
        wants_websocket: may_upgrade && hops::wants_websocket(headers),
        trailers: hops::wants_trailers(headers),
        expects_continue: headers.remove(EXPECT).is_some(),
    };
    hops::strip(headers);
    hops::strip_proxy(headers);
    hop_headers
}

/// The forwarded request: the matched path, and headers that describe the client.
pub(super) fn outbound(
    mut parts: Parts,
    path: &Path,
    hop_headers: &HopHeaders,
    (host, hop): (HeaderValue, Hop<'_>),
    body: Upload,
) -> http::Request<Upload> {
    let headers = &mut parts.headers;
    forwarded::write(headers, hop);
    join_cookies(headers);
    headers.append(VIA, via_to_upstream(parts.version));
    headers.insert(HOST, host);
    if hop_headers.trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    if hop_headers.wants_websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, hops::WEBSOCKET);
    }
    set_framing(headers, &parts.method, &body);
    parts.uri = target(&parts.uri, path);
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    http::Request::from_parts(parts, body)
}

/// HTTP/2 may split the cookie header; HTTP/1.1 expects one line (RFC 9113, 8.2.3).
fn join_cookies(headers: &mut HeaderMap) {
    let lines = headers.get_all(COOKIE);
    let is_secret = lines.iter().any(HeaderValue::is_sensitive);
    let pieces: Vec<&[u8]> = lines.iter().map(HeaderValue::as_bytes).collect();
    if pieces.len() < 2 {
        return;
    }
    // Joined valid values are valid.
    if let Ok(mut line) = HeaderValue::from_bytes(&pieces.join(&b"; "[..])) {
        line.set_sensitive(is_secret);
        headers.insert(COOKIE, line);
    }
}

/// Sets the framing headers: a body of unknown length is chunked, for any method.
fn set_framing(headers: &mut HeaderMap, method: &Method, body: &Upload) {
    if body.is_end_stream() {
        // Some servers require `Content-Length: 0` for methods that usually have a body.
        let may_have_one = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
        headers.remove(CONTENT_LENGTH);
        if may_have_one {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
    } else if let Some(length) = body.size_hint().exact() {
        headers.insert(CONTENT_LENGTH, length.into());
    } else {
        headers.remove(CONTENT_LENGTH);
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// The upstream gets the normalised path that the routes have matched.
fn target(sent: &Uri, path: &Path) -> Uri {
    let target = match sent.path_and_query() {
        Some(as_sent) if as_sent.path() == path.as_str() => Some(as_sent.clone()),
        _ => {
            let query = sent.query().map(|query| format!("?{query}")).unwrap_or_default();
            let text = Bytes::from(format!("{}{query}", path.as_str()));
            PathAndQuery::from_maybe_shared(text).ok()
        }
    };
    // A normalised path is always a valid URI.
    target.map(Uri::from).unwrap_or_default()
}

/// The `Via` header for a response of this version.
pub(super) fn via(version: Version) -> HeaderValue {
    let all = ["1.0 tidegate", "1.1 tidegate", "2.0 tidegate", "3.0 tidegate"];
    HeaderValue::from_static(all[protocol(version)])
}

/// The same for a request, with the mark of this process.
fn via_to_upstream(version: Version) -> HeaderValue {
    OWN_VIA[protocol(version)].clone().unwrap_or_else(|| via(version))
}

/// Whether this process has passed the request on before.
pub(super) fn came_back(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(VIA).iter().filter_map(|line| line.to_str().ok());
    lines.any(|line| line.contains(&**OWN_MARK))
}

/// The index of a version in [`PROTOCOLS`].
const fn protocol(version: Version) -> usize {
    match version {
        Version::HTTP_09 | Version::HTTP_10 => 0,
        Version::HTTP_2 => 2,
        Version::HTTP_3 => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn parts(uri: &str, hosts: &[&str], version: Version) -> Parts {
        let request = Request::builder().uri(uri).version(version);
        let add = |request: http::request::Builder, host: &&str| request.header(HOST, *host);
        hosts.iter().fold(request, add).body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_a_request_for_exactly_one_host_is_accepted() {
        for (uri, hosts, version, expected) in [
            ("/", &["a.example"][..], Version::HTTP_11, Some(Some("a.example"))),
            ("/", &["[::1]:80"], Version::HTTP_11, Some(Some("[::1]:80"))),
            ("/", &[], Version::HTTP_10, Some(None)),
            ("http://a.example/", &["A.example"], Version::HTTP_11, Some(Some("a.example"))),
            ("/", &["A.example.:080"], Version::HTTP_11, Some(Some("a.example:80"))),
            ("/", &["a.example:"], Version::HTTP_11, Some(Some("a.example"))),
            ("/", &["a.example:x"], Version::HTTP_11, None),
            ("/", &[""], Version::HTTP_10, None),
            ("http://a.example/", &[], Version::HTTP_2, Some(Some("a.example"))),
            ("/", &[], Version::HTTP_11, None),
            ("/", &["a", "b"], Version::HTTP_11, None),
            ("/", &["a", "a"], Version::HTTP_11, None),
            ("/", &["a b"], Version::HTTP_11, None),
            ("/", &["ann@a"], Version::HTTP_11, None),
            ("/", &["a/b"], Version::HTTP_11, None),
            ("http://a.example/", &["b.example"], Version::HTTP_11, None),
            ("http://a.example/", &["b.example"], Version::HTTP_2, None),
        ] {
            let found = host(&parts(uri, hosts, version)).ok();
            let found = found.map(|host| host.map(|host| host.to_str().unwrap().to_owned()));
            let expected = expected.map(|host| host.map(str::to_owned));
            assert_eq!(found, expected, "{uri} {hosts:?} {version:?}");
        }
    }

    #[test]
    fn only_the_own_mark_shows_that_a_request_came_back() {
        let passed = |via: HeaderValue| {
            let mut headers = HeaderMap::new();
            headers.append(VIA, HeaderValue::from_static("1.1 cdn"));
            headers.append(VIA, via);
            came_back(&headers)
        };
        assert!(passed(via_to_upstream(Version::HTTP_2)));
        assert!(!passed(via(Version::HTTP_11)));
        assert!(!passed(HeaderValue::from_static("1.1 tidegate (0123456789abcdef)")));
        assert!(!came_back(&HeaderMap::new()));
    }

    #[test]
    fn the_upstream_gets_the_path_that_was_matched() {
        for (sent, expected) in [
            ("/a/b?c=%2F", "/a/b?c=%2F"),
            ("//a/./b//?c", "/a/b/?c"),
            ("/a%2Fb", "/a/b"),
            ("/x/../a?", "/a?"),
            ("http://h/a", "/a"),
            ("/%7Eann", "/~ann"),
            ("/a;b=c/d%3Be?f;g", "/a;b=c/d%3Be?f;g"),
            ("//a;b", "/a;b"),
        ] {
            let uri: Uri = sent.parse().unwrap();
            let path = Path::read(uri.path()).unwrap();
            assert_eq!(target(&uri, &path).to_string(), expected, "{sent}");
        }
    }
}
