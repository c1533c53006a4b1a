//! `Forwarded` and `X-Forwarded-*` headers. Values of a trusted proxy are extended; those of other clients are replaced.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, HeaderValue};

use tidegate_request::{Peer, is_claim, is_respelled};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
/// The previous hop of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop<'a> {
    pub(crate) peer: Peer,
    pub(crate) is_trusted: bool,
    pub(crate) is_tls: bool,
    pub(crate) host: &'a HeaderValue,
    /// Whether to add `Forwarded` if the request has none.
    pub(crate) writes_forwarded: bool,
}

pub(crate) fn write(headers: &mut HeaderMap, hop: Hop<'_>) {
    strip_untrusted(headers, hop.is_trusted);
    if headers.contains_key(FORWARDED) || hop.writes_forwarded {
        let element = element(hop);
        add(headers, FORWARDED, &element);
    }
    match hop.peer {
        Peer::Ip(ip) => add(headers, FOR, &ip.to_string()),
        // Without an entry, the upstream would take the client for this machine.
        Peer::Unknown => add(headers, FOR, "unknown"),
        Peer::Unix => {}
    }
    let scheme = HeaderValue::from_static(scheme(hop));
    headers.entry(PROTO).or_insert(scheme);
    headers.entry(HOST).or_insert_with(|| hop.host.clone());
}

/// Removes claims that are not trusted. A name with other marks than hyphens always comes from a client, because proxies
/// write hyphens; CGI and its successors treat all marks alike.
pub(crate) fn strip_untrusted(headers: &mut HeaderMap, is_trusted: bool) {
    let is_untrusted = |name: &&HeaderName| {
        let name = name.as_str();
        is_respelled(name) || (!is_trusted && is_claim(name))
    };
    for name in headers.keys().filter(is_untrusted).cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
}

const fn scheme(hop: Hop<'_>) -> &'static str {
    if hop.is_tls { "https" } else { "http" }
}

/// Appends to a list and joins it into one header line: some upstreams read only the last line.
fn add(headers: &mut HeaderMap, name: HeaderName, word: &str) {
    let before = headers.get_all(&name).iter().map(HeaderValue::as_bytes);
    let all: Vec<&[u8]> = before.chain([word.as_bytes()]).collect();
    // Joined header values are a valid value.
    if let Ok(line) = HeaderValue::from_bytes(&all.join(&b", "[..])) {
        headers.insert(name, line);
    }
}

/// An element of `Forwarded` (RFC 7239). A host that cannot be quoted is left out.
fn element(hop: Hop<'_>) -> String {
    let source = match hop.peer {
        Peer::Ip(IpAddr::V4(ip)) => ip.to_string(),
        Peer::Ip(IpAddr::V6(ip)) => format!("\"[{ip}]\""),
        Peer::Unix | Peer::Unknown => "unknown".to_owned(),
    };
    let host = hop.host.to_str().ok().filter(|host| !host.contains(['"', '\\']));
    let host = host.map(|host| format!(";host=\"{host}\"")).unwrap_or_default();
    format!("for={source}{host};proto={}", scheme(hop))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMED: [(&str, &str); 10] = [
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "bank.example"),
        ("forwarded", "for=203.0.113.9"),
        ("x-original-uri", "/admin"),
        ("x-forwarded-user", "root"),
        ("x_forwarded-for", "203.0.113.9"),
        ("x-forwarder", "kept"),
        ("wl-proxy-client-ip", "203.0.113.9"),
        ("x-http-method-override", "DELETE"),
    ];

    fn forwarded_headers(
        peer: &str,
        is_trusted: bool,
        writes_forwarded: bool,
        sent: &[(&'static str, &str)],
    ) -> Vec<String> {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse::<HeaderValue>().unwrap())
        };
        let mut headers: HeaderMap = sent.iter().map(header).collect();
        let (peer, host) =
            (Peer::Ip(peer.parse().unwrap()), HeaderValue::from_static("shop.example"));
        write(&mut headers, Hop { peer, is_trusted, is_tls: false, host: &host, writes_forwarded });
        let mut lines: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn claims_of_untrusted_clients_are_replaced() {
        let lines = forwarded_headers("192.0.2.1", false, false, &CLAIMED);
        let expected = [
            "x-forwarded-for: 192.0.2.1",
            "x-forwarded-host: shop.example",
            "x-forwarded-proto: http",
            "x-forwarder: kept",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn headers_of_trusted_proxies_are_extended() {
        let lines = forwarded_headers("10.0.0.1", true, false, &CLAIMED);
        let expected = [
            "forwarded: for=203.0.113.9, for=10.0.0.1;host=\"shop.example\";proto=http",
            "wl-proxy-client-ip: 203.0.113.9",
            "x-forwarded-for: 203.0.113.9, 10.0.0.1",
            "x-forwarded-host: bank.example",
            "x-forwarded-proto: https",
            "x-forwarded-user: root",
            "x-forwarder: kept",
            "x-http-method-override: DELETE",
            "x-original-uri: /admin",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn forwarded_is_written_if_configured() {
        let lines = forwarded_headers("2001:db8::1", false, true, &CLAIMED[..1]);
        assert_eq!(lines[0], "forwarded: for=\"[2001:db8::1]\";host=\"shop.example\";proto=http");
    }
}
