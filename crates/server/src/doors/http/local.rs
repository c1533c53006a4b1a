//! Calls that only those who run this machine may make, until there are tokens.

use std::net::IpAddr;

use axum::http::Uri;
use axum::http::header::{FORWARDED, HeaderMap, HeaderName, ORIGIN};

use super::problem::Problem;
use crate::listen::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Refuses whoever is not on this machine: by address, behind a proxy on this machine, or as a page of another
/// site in a browser on this machine (which may post here, or have its own name point here).
pub(super) fn only(peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
    if !peer.is_local() {
        return Err(Problem::not_local("the connection comes from elsewhere"));
    }
    if headers.contains_key(FORWARDED) || headers.contains_key(X_FORWARDED_FOR) {
        return Err(Problem::not_local("the request was forwarded by a proxy"));
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
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn check(peer: &str, header: Option<(HeaderName, &'static str)>, allowed: bool) {
        let header = header.map(|(name, value)| (name, HeaderValue::from_static(value)));
        let headers: HeaderMap = header.into_iter().collect();
        let answer = only(Peer::Ip(peer.parse().unwrap()), &headers);
        assert_eq!(answer.is_ok(), allowed, "{peer} {headers:?}");
    }

    #[test]
    fn only_this_machine_may_call() {
        check("127.0.0.1", None, true);
        check("::1", None, true);
        check("192.0.2.7", None, false);
        check("127.0.0.1", Some((X_FORWARDED_FOR, "192.0.2.7")), false);
        check("127.0.0.1", Some((FORWARDED, "for=192.0.2.7")), false);
        check("127.0.0.1", Some((ORIGIN, "http://127.0.0.1:8080")), true);
        check("127.0.0.1", Some((ORIGIN, "http://localhost:8080")), true);
        check("::1", Some((ORIGIN, "http://[::1]:8080")), true);
        check("127.0.0.1", Some((ORIGIN, "https://evil.example")), false);
        check("127.0.0.1", Some((ORIGIN, "http://127.0.0.1.evil.example:8080")), false);
        check("127.0.0.1", Some((ORIGIN, "null")), false);
    }
}
