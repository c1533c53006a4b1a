//! Authorizes operator calls: with a token, or from this machine if none is set.

use std::net::IpAddr;

use http::Uri;
use http::header::{
    AUTHORIZATION, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VIA,
};
use http::uri::Authority;

use super::ApiRequest;
use crate::doors::shared::Problem;
use crate::service::AdminToken;
use tidegate_request::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Headers that proxies add.
const PROXY_HEADERS: [HeaderName; 6] = [
    FORWARDED,
    VIA,
    X_FORWARDED_FOR,
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

impl ApiRequest {
    /// Rejects callers who are not operators. Handlers call it first, so that others learn nothing more.
    pub(super) fn require_operator(&self) -> Result<(), Problem> {
        authorize(&self.api.app.in_force().http.admin, self.peer, &self.head.headers)
    }
}

fn authorize(admin: &AdminToken, peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
    if !admin.is_set() {
        return only_local(peer, headers);
    }
    let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let given = given.and_then(|given| {
        let (scheme, rest) = given.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
    });
    match given {
        Some(given) if admin.is(given) => Ok(()),
        Some(_) => Err(Problem::unauthorized("the token is wrong")),
        None => Err(Problem::unauthorized("give it as `Authorization: Bearer TOKEN`")),
    }
}

/// Rejects callers that are not on this machine: by address, behind a local proxy, or as a web page of another site in
/// a local browser, which may post here or resolve its own name to this machine.
fn only_local(peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
    if !peer.is_local() {
        return Err(Problem::not_local("the connection comes from elsewhere"));
    }
    if PROXY_HEADERS.iter().any(|name| headers.contains_key(name)) {
        return Err(Problem::not_local("the request was forwarded by a proxy"));
    }
    // Another site's name may resolve to this machine (DNS rebinding), and its pages could read the answers. A Unix
    // socket has no host name.
    let host = headers.get(HOST).filter(|_| peer != Peer::Unix);
    if host.is_some_and(|host| !host.to_str().is_ok_and(is_local_host)) {
        return Err(Problem::not_local("the request is for another host"));
    }
    match headers.get(ORIGIN) {
        Some(origin) if !origin.to_str().is_ok_and(is_local_origin) => {
            Err(Problem::not_local("the request was made by a page of another site"))
        }
        _ => Ok(()),
    }
}

fn is_local_origin(origin: &str) -> bool {
    let uri: Option<Uri> = origin.parse().ok();
    is_local_name(uri.as_ref().and_then(Uri::host).unwrap_or_default())
}

fn is_local_host(host: &str) -> bool {
    let authority: Option<Authority> = host.parse().ok();
    authority.is_some_and(|authority| is_local_name(authority.host()))
}

fn is_local_name(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        admin: &AdminToken,
        peer: &str,
        header: Option<(HeaderName, &'static str)>,
        allowed: bool,
    ) {
        let header = header.map(|(name, value)| (name, HeaderValue::from_static(value)));
        let headers: HeaderMap = header.into_iter().collect();
        let answer = authorize(admin, Peer::Ip(peer.parse().unwrap()), &headers);
        assert_eq!(answer.is_ok(), allowed, "{peer} {headers:?}");
    }

    #[test]
    fn without_a_token_only_this_machine_may_call() {
        let check = |peer, header, allowed| check(&AdminToken::default(), peer, header, allowed);
        check("127.0.0.1", None, true);
        check("::1", None, true);
        check("192.0.2.7", None, false);
        check("192.0.2.7", Some((AUTHORIZATION, "Bearer ")), false);
        check("127.0.0.1", Some((X_FORWARDED_FOR, "192.0.2.7")), false);
        check("127.0.0.1", Some((FORWARDED, "for=192.0.2.7")), false);
        check("127.0.0.1", Some((ORIGIN, "http://127.0.0.1:8080")), true);
        check("127.0.0.1", Some((ORIGIN, "http://localhost:8080")), true);
        check("::1", Some((ORIGIN, "http://[::1]:8080")), true);
        check("127.0.0.1", Some((ORIGIN, "https://evil.example")), false);
        check("127.0.0.1", Some((ORIGIN, "http://127.0.0.1.evil.example:8080")), false);
        check("127.0.0.1", Some((ORIGIN, "null")), false);
        check("127.0.0.1", Some((VIA, "1.1 proxy")), false);
        check("127.0.0.1", Some((HOST, "127.0.0.1:8080")), true);
        check("::1", Some((HOST, "[::1]:8080")), true);
        check("127.0.0.1", Some((HOST, "localhost")), true);
        check("127.0.0.1", Some((HOST, "evil.example:8080")), false);
        check("127.0.0.1", Some((HOST, "127.0.0.1.evil.example")), false);
    }

    #[test]
    fn with_a_token_only_its_holder_may_call() {
        let admin = AdminToken::new("s3cret-token-of-ours").unwrap();
        let check = |peer, header, allowed| check(&admin, peer, header, allowed);
        check("127.0.0.1", None, false);
        check("192.0.2.7", Some((AUTHORIZATION, "Bearer s3cret-token-of-ours")), true);
        check("192.0.2.7", Some((AUTHORIZATION, "bearer  s3cret-token-of-ours ")), true);
        for wrong in [
            "Bearer s3cret-token-of-ourz",
            "Bearer s3cret",
            "Bearer",
            "s3cret-token-of-ours",
            "Basic x",
        ] {
            check("127.0.0.1", Some((AUTHORIZATION, wrong)), false);
        }
        assert!(!format!("{admin:?}").contains("s3cret"));
    }

    #[test]
    fn a_token_can_be_sent_in_a_header() {
        for bad in [
            "",
            " ",
            "a",
            "a s3cret-token-of-ours",
            "s3cret-token-öf-ours",
            "s3cret-token\nof-ours",
        ] {
            assert!(AdminToken::new(bad).is_err(), "{bad}");
        }
        let line = "s3cret-token-of-ours\n";
        assert!(AdminToken::new(line).is_ok(), "a line end is not part of the token");
        let padded = format!("short{}", " ".repeat(16));
        assert!(AdminToken::new(&padded).is_err(), "spaces do not count towards the length");
    }
}
