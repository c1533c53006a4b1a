//! Calls that only those who run the service may make: with a token, or where none is set, on this machine.

use std::net::IpAddr;

use axum::http::Uri;
use axum::http::header::{
    AUTHORIZATION, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VIA,
};
use axum::http::uri::Authority;

use crate::doors::shared::Problem;
use crate::service::AdminToken;
use tidegate_request::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// What proxies add.
const OF_PROXIES: [HeaderName; 6] = [
    FORWARDED,
    VIA,
    X_FORWARDED_FOR,
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Refuses a caller who is not an operator.
pub(super) fn admit(admin: &AdminToken, peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
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
        Some(_) => Err(Problem::unauthorized("the token is not the right one")),
        None => Err(Problem::unauthorized("give it as `Authorization: Bearer TOKEN`")),
    }
}

/// Refuses whoever is not on this machine: by address, behind a proxy on this machine, or as a page of another
/// site in a browser on this machine (which may post here, or have its own name point here).
fn only_local(peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
    if !peer.is_local() {
        return Err(Problem::not_local("the connection comes from elsewhere"));
    }
    if OF_PROXIES.iter().any(|name| headers.contains_key(name)) {
        return Err(Problem::not_local("the request was forwarded by a proxy"));
    }
    // A name of another site may lead here too, and then its pages may read the answers. A socket has no name.
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
        let answer = admit(admin, Peer::Ip(peer.parse().unwrap()), &headers);
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
    fn with_a_token_only_who_has_it_may_call() {
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
        assert!(AdminToken::new(line).is_ok(), "the end of a file's line is no part of it");
        let padded = format!("short{}", " ".repeat(16));
        assert!(AdminToken::new(&padded).is_err(), "nor do spaces make it longer");
    }
}
