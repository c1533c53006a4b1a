//! Hop-by-hop headers, which a proxy does not forward (RFC 9110, 7.6.1).

use http::HeaderMap;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRANSFER_ENCODING, UPGRADE,
};

/// Removed whether `Connection` names them or not. Not `Trailer`, because trailers are forwarded.
static ALWAYS: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("http2-settings"),
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
            .filter_map(|name| HeaderName::from_bytes(name).ok())
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

/// Whether the sender wants trailers, as gRPC does.
pub(crate) fn wants_trailers(headers: &HeaderMap) -> bool {
    words(headers, &TE).any(|word| word.eq_ignore_ascii_case(b"trailers"))
}

/// The only protocol to which a connection may be upgraded. In others, such as `h2c` and `TLS/1.2`, a tunnel carries
/// requests, which would pass unchecked.
pub(crate) const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Whether the client asks for a WebSocket.
pub(crate) fn wants_websocket(headers: &HeaderMap) -> bool {
    let is_named = words(headers, &CONNECTION).any(|word| word.eq_ignore_ascii_case(b"upgrade"));
    is_named && is_websocket(headers)
}

/// Whether `Upgrade` names a WebSocket and nothing else.
pub(crate) fn is_websocket(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(UPGRADE).iter();
    let line = lines.next().map_or(&[][..], HeaderValue::as_bytes);
    line.trim_ascii().eq_ignore_ascii_case(WEBSOCKET.as_bytes()) && lines.next().is_none()
}

/// The elements of a list header. A stray byte spoils its own element only.
fn words<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a [u8]> {
    let lines = headers.get_all(name).iter();
    lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
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
    fn only_a_websocket_may_be_asked_for() {
        let check = |connection: &[u8], upgrade: &[&[u8]], expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(CONNECTION, HeaderValue::from_bytes(connection).unwrap());
            for line in upgrade {
                headers.append(UPGRADE, HeaderValue::from_bytes(line).unwrap());
            }
            assert_eq!(wants_websocket(&headers), expected, "{headers:?}");
        };
        check(b"keep-alive, Upgrade", &[b"websocket"], true);
        check(b"upgrade, \xff", &[b" WebSocket "], true);
        check(b"keep-alive", &[b"websocket"], false);
        check(b"upgrade", &[], false);
        for upgrade in [
            &b"h2c"[..],
            b"h2",
            b"h3",
            b"h2c, \xff",
            b"h2c,websocket",
            b"websocket, h2c",
            b"websocket,",
            b"websocket/13",
            b"websocket\t,\xff",
            b"HTTP/2.0",
            b"TLS/1.2",
            b"SPDY/3.1",
            b"tcp",
            b"\xffh2c",
            b"",
        ] {
            check(b"upgrade", &[upgrade], false);
        }
        check(b"upgrade", &[b"websocket", b"h2c"], false);
        check(b"upgrade", &[b"websocket", b"websocket"], false);
    }

    #[test]
    fn te_trailers_asks_for_trailers() {
        assert!(wants_trailers(&headers(&[("te", "gzip, Trailers")])));
        assert!(!wants_trailers(&headers(&[("te", "gzip")])));
    }
}
