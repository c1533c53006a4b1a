//! Authorizes operator calls: with a token, or from this machine if none is set.

use std::net::IpAddr;

use http::Uri;
use http::header::{AUTHORIZATION, HeaderMap, HeaderValue, ORIGIN, VIA};
use http::request::Parts;

use super::ApiRequest;
use crate::doors::shared::Problem;
use crate::metrics::Door;
use crate::service::{AdminToken, AppState};
use tidegate_request::{Authority, Peer, is_claim, is_respelled};

/// Rejects a call from this machine by a name that is not the API's. Another site's name may resolve to this machine (DNS
/// rebinding), and its pages in a local browser could read the answers. Over a Unix socket there are no names: clients
/// write its path into `Host`, or nothing.
pub(super) fn require_own_host(app: &AppState, peer: Peer, head: &Parts) -> Result<(), Problem> {
    if peer == Peer::Unix {
        return Ok(());
    }
    let foreign = Authority::of_request(head)?.filter(|_| peer.is_local());
    match foreign.as_ref().map(Authority::host) {
        Some(host) if !is_own_name(host) && !app.in_force().http.is_own_host(host) => {
            Err(Problem::foreign_host(host))
        }
        _ => Ok(()),
    }
}

impl ApiRequest {
    /// Rejects callers who are not operators. Handlers call it first, so that others learn nothing more.
    pub(super) fn require_operator(&self) -> Result<(), Problem> {
        let admin = &self.api.app.in_force().http.admin;
        let allowed = authorize(admin, self.peer, &self.head.headers);
        if admin.is_set() && allowed.is_err() && self.head.headers.contains_key(AUTHORIZATION) {
            self.api.app.wrong_secret(Door::Http, self.peer);
        }
        allowed
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
/// a local browser. Whoever calls by a foreign name has been [rejected](require_own_host) before.
fn only_local(peer: Peer, headers: &HeaderMap) -> Result<(), Problem> {
    if !peer.is_local() {
        return Err(Problem::not_local("the connection comes from elsewhere"));
    }
    let is_of_proxy = |name: &str| is_claim(name) || is_respelled(name);
    if headers.contains_key(VIA) || headers.keys().any(|name| is_of_proxy(name.as_str())) {
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
    is_local_name(uri.as_ref().and_then(Uri::host).unwrap_or_default())
}

/// Whether no site can have this name: `localhost`, or an address, which needs no look-up.
fn is_own_name(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
}

fn is_local_name(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use http::header::{FORWARDED, HeaderName};

    use super::*;

    const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

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
        check("127.0.0.1", Some((HeaderName::from_static("x-real-ip"), "192.0.2.7")), false);
        check("127.0.0.1", Some((HeaderName::from_static("cf-connecting-ip"), "192.0.2.7")), false);
        let unknown = authorize(&AdminToken::default(), Peer::Unknown, &HeaderMap::new());
        assert!(unknown.is_err());
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
