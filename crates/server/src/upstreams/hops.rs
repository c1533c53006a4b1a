//! Hop-by-hop headers, which a proxy does not forward (RFC 9110, 7.6.1).

use http::HeaderMap;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRANSFER_ENCODING, UPGRADE,
};

/// Removed whether `Connection` names them or not. Not `Trailer`, because trailers are forwarded.
static ALWAYS: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The names in `Connection` that are removed; a head has at most 100 headers.
const NAMED_MAX: usize = 128;

pub(crate) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: Vec<HeaderName> = words(headers, &CONNECTION)
            .filter_map(|name| name.parse().ok())
            .take(NAMED_MAX)
            .collect();
        for name in named {
            // A client must not remove what frames the body.
            if !matches!(name.as_str(), "content-length" | "host") {
                headers.remove(name);
            }
        }
    }
    // A chunked body overrides `Content-Length` (RFC 9112, 6.3).
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in &ALWAYS {
        headers.remove(name);
    }
}

/// Removes `Proxy` and `Proxy-*` from a request. CGI and its successors expose `Proxy` as `HTTP_PROXY`, and programs send
/// their own requests through that address (httpoxy); they treat hyphens as underscores. Responses may have such headers:
/// `Proxy-Status` is for the client.
pub(crate) fn strip_proxy(headers: &mut HeaderMap) {
    let is_for_proxies = |name: &&HeaderName| {
        let rest = name.as_str().strip_prefix("proxy");
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
    };
    let names: Vec<HeaderName> = headers.keys().filter(is_for_proxies).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Whether a body has a transfer coding other than chunked. The proxy does not offer others, and cannot decode them.
pub(crate) fn is_coded(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |line: &HeaderValue| line.as_bytes().eq_ignore_ascii_case(b"chunked");
    lines.next().is_some_and(|first| !is_chunked(first) || lines.next().is_some())
}

/// Whether the sender wants trailers, as gRPC does.
pub(crate) fn wants_trailers(headers: &HeaderMap) -> bool {
    words(headers, &TE).any(|word| word.eq_ignore_ascii_case("trailers"))
}

/// The protocol of an upgrade, if it may be forwarded. HTTP/2 may not: its requests would pass unchecked.
pub(crate) fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(UPGRADE)?;
    let is_named = words(headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"));
    let is_http = words(headers, &UPGRADE).any(|word| {
        let word = word.to_ascii_lowercase();
        word.starts_with("h2c") || word.starts_with("http")
    });
    let is_one = headers.get_all(UPGRADE).iter().count() == 1;
    (is_named && is_one && !is_http).then(|| upgrade.clone())
}

/// The elements of a list header.
fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(header).collect()
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut sent = headers(&[
            ("connection", "close, X-User ,content-length"),
            ("x-user", "ann"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("trailer", "x-sum"),
            ("content-length", "3"),
            ("authorization", "Bearer x"),
        ]);
        strip(&mut sent);
        let mut kept: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["authorization", "trailer"]);
    }

    #[test]
    fn proxy_headers_are_removed() {
        let mut sent = headers(&[
            ("proxy", "http://evil.example"),
            ("proxy-foo", "1"),
            ("proxy_foo", "1"),
            ("proxy-authorization", "Basic eA=="),
            ("proxyfoo", "1"),
            ("x-proxy-foo", "1"),
        ]);
        sent.append("proxy", HeaderValue::from_static("http://worse.example"));
        strip_proxy(&mut sent);
        let mut kept: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        assert_eq!(kept, ["proxyfoo", "x-proxy-foo"]);
    }

    #[test]
    fn connection_cannot_remove_the_framing() {
        let mut sent = headers(&[
            ("connection", "content-length, host"),
            ("content-length", "3"),
            ("host", "a"),
        ]);
        strip(&mut sent);
        assert_eq!(sent.len(), 2, "{sent:?}");
    }

    #[test]
    fn only_safe_upgrades_are_forwarded() {
        for (pairs, expected) in [
            (&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")][..], true),
            (&[("upgrade", "websocket")], false),
            (&[("connection", "upgrade")], false),
            (&[("connection", "upgrade"), ("upgrade", "h2c")], false),
            (&[("connection", "upgrade, http2-settings"), ("upgrade", "H2C, websocket")], false),
            (&[("connection", "upgrade"), ("upgrade", "HTTP/2.0")], false),
        ] {
            assert_eq!(upgrade(&headers(pairs)).is_some(), expected, "{pairs:?}");
        }
    }

    #[test]
    fn te_trailers_asks_for_trailers() {
        assert!(wants_trailers(&headers(&[("te", "gzip, Trailers")])));
        assert!(!wants_trailers(&headers(&[("te", "gzip")])));
    }
}
