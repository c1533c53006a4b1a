//! The one parser of authorities: `Host`, `:authority`, `X-Forwarded-Host`, and the host of an absolute target.
//!
//! An upstream that is more lenient than the routes serves its virtual host unlimited. So whatever is not plainly a name
//! or an address, with at most a port, is an error.

use std::borrow::Cow;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use http::header::{HOST, HeaderValue};
use http::request::Parts;

use crate::AmbiguousRequest;

/// A host and its port, in one spelling: in lower case, without a dot at the end, addresses in their usual form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Authority<'a> {
    host: Cow<'a, str>,
    port: Option<u16>,
}

/// What is not a host with an optional port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadAuthority;

/// Five digits are enough for every port; more would be read differently where numbers wrap.
const PORT_DIGITS_MAX: usize = 5;

impl<'a> Authority<'a> {
    /// Reads a host name, an IPv4 address or an IPv6 address in brackets, with an optional port. A colon without a port
    /// (RFC 3986 permits it) is as none. User information, escapes and zones are errors.
    pub fn read(text: &'a [u8]) -> Result<Self, BadAuthority> {
        let text = str::from_utf8(text).map_err(|_| BadAuthority)?;
        if let Some(rest) = text.strip_prefix('[') {
            let (inside, after) = rest.split_once(']').ok_or(BadAuthority)?;
            let ip: Ipv6Addr = inside.parse().map_err(|_| BadAuthority)?;
            return Ok(Self { host: format!("[{ip}]").into(), port: read_port(after)? });
        }
        let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        Ok(Self { host: read_name(name)?, port: read_port(port)? })
    }

    /// The authority of a request. `None` if it has none, as requests of HTTP/1.0 may.
    pub fn of_request(request: &'a Parts) -> Result<Option<Self>, AmbiguousRequest> {
        let bad = |BadAuthority| AmbiguousRequest::Authority("host");
        let mut lines = request.headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
        let (line, more) = (lines.next(), lines.next());
        if more.is_some() {
            return Err(AmbiguousRequest::RepeatedHost);
        }
        let line = line.map(Self::read).transpose().map_err(bad)?;
        let target = request.uri.authority().map(|it| Self::read(it.as_str().as_bytes()));
        match (line, target.transpose().map_err(bad)?) {
            (Some(line), Some(target)) if line != target => Err(AmbiguousRequest::HostNotTarget),
            (line, target) => Ok(line.or(target)),
        }
    }

    /// The host alone.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, if one was given.
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    pub(crate) fn into_host(self) -> String {
        self.host.into_owned()
    }
}

/// A name of letters, digits, hyphens and underscores between dots, or an IPv4 address.
fn read_name(text: &str) -> Result<Cow<'_, str>, BadAuthority> {
    // A dot at the end marks the name as absolute.
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !name.split('.').all(|label| !label.is_empty() && label.bytes().all(is_of_name)) {
        return Err(BadAuthority);
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    // `127.1`, `0x7f.0.0.1` and `010.0.0.1` are addresses for some servers and names for others.
    if is_number(last) && (name.len() < text.len() || name.parse::<Ipv4Addr>().is_err()) {
        return Err(BadAuthority);
    }
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Ok(name.to_ascii_lowercase().into());
    }
    Ok(name.into())
}

fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(hex) => hex.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// What follows the host: nothing, a colon, or a colon and a port.
fn read_port(text: &str) -> Result<Option<u16>, BadAuthority> {
    let Some(digits) = text.strip_prefix(':') else {
        return if text.is_empty() { Ok(None) } else { Err(BadAuthority) };
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.len() {
        0 => Ok(None),
        1..=PORT_DIGITS_MAX if is_number => digits.parse().map(Some).map_err(|_| BadAuthority),
        _ => Err(BadAuthority),
    }
}

impl fmt::Display for Authority<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => f.write_str(&self.host),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    use super::*;

    fn read(text: &str) -> Option<String> {
        Authority::read(text.as_bytes()).ok().map(|it| it.to_string())
    }

    #[test]
    fn every_spelling_of_an_authority_is_the_same_authority() {
        for (sent, expected) in [
            ("shop.example", "shop.example"),
            ("Shop.EXAMPLE", "shop.example"),
            ("shop.example.", "shop.example"),
            ("shop.example.:443", "shop.example:443"),
            ("shop.example:", "shop.example"),
            ("shop.example:0443", "shop.example:443"),
            ("shop.example:0", "shop.example:0"),
            ("shop.example:65535", "shop.example:65535"),
            ("my_app-1", "my_app-1"),
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("[2001:DB8:0::1]:80", "[2001:db8::1]:80"),
            ("[::]:", "[::]"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ] {
            assert_eq!(read(sent).as_deref(), Some(expected), "{sent}");
        }
    }

    #[test]
    fn what_servers_read_as_different_hosts_is_refused() {
        for sent in [
            "",
            ".",
            ":",
            ":80",
            "..",
            "a..b",
            ".a",
            "a..",
            "a.:x",
            "shop.example:x",
            "shop.example:80:80",
            "shop.example:443.",
            "shop.example:-1",
            "shop.example:+1",
            "shop.example::",
            "shop.example::80",
            "shop.example:%38",
            "shop.example:65536",
            "shop.example:000080",
            "shop.example:8 0",
            "shop.example: 80",
            "shop.example :80",
            " shop.example",
            "shop.example:80/",
            "shop.example/",
            "shop.example?",
            "shop.example#",
            "shop.example\\",
            "ann@shop.example",
            "ann:pw@shop.example",
            "shop.example:80@evil.example",
            "shop%2eexample",
            "%73hop.example",
            "shop.example%00",
            "shop.example\0",
            "shop.example,evil.example",
            "shop.example;a",
            "shöp.example",
            "shop.example\u{ff0e}",
            "*.shop.example",
            "~shop.example",
            "sh(op)",
            "2001:db8::1",
            "[2001:db8::1",
            "2001:db8::1]",
            "[2001:db8::1]x",
            "[2001:db8::1]80",
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]",
            "[]",
            "[192.0.2.7]",
            "[v1.a]",
            "[[::1]]",
            "127.1",
            "0x7f.0.0.1",
            "127.0.0.0x1",
            "010.0.0.1",
            "2130706433",
            "1.2.3.4.",
            "256.1.1.1",
            "shop.example.1",
        ] {
            assert_eq!(read(sent), None, "{sent:?}");
        }
        assert!(Authority::read(b"shop.example:\xff").is_err());
    }

    #[test]
    fn a_request_has_one_authority() {
        let check = |target: &str,
                     hosts: &[&str],
                     expected: Result<Option<&str>, AmbiguousRequest>| {
            let request = Request::builder().uri(target);
            let add = |request: http::request::Builder, host: &&str| request.header(HOST, *host);
            let request = hosts.iter().fold(request, add).body(()).unwrap().into_parts().0;
            let found = Authority::of_request(&request);
            let found = found.map(|it| it.map(|it| it.to_string()));
            assert_eq!(found, expected.map(|it| it.map(str::to_owned)), "{target} {hosts:?}");
        };
        check("/", &["A.example:80"], Ok(Some("a.example:80")));
        check("/", &[], Ok(None));
        check("http://a.example/", &[], Ok(Some("a.example")));
        check("http://a.example:/", &["A.example."], Ok(Some("a.example")));
        check("http://a.example/", &["b.example"], Err(AmbiguousRequest::HostNotTarget));
        check("http://a.example:80/", &["a.example:81"], Err(AmbiguousRequest::HostNotTarget));
        check("/", &["a", "a"], Err(AmbiguousRequest::RepeatedHost));
        check("/", &["a:x"], Err(AmbiguousRequest::Authority("host")));
        check("http://u:p@a/", &["a"], Err(AmbiguousRequest::Authority("host")));
    }

    /// Hosts, and what makes lenient parsers see another one.
    const GRAMMAR: Grammar = Grammar {
        whole: &["shop.example:443", "[2001:db8::1]:80"],
        words: &[
            "shop",
            "example",
            ".",
            ":",
            "::",
            "443",
            "80",
            "0x7f",
            "1",
            "[",
            "]",
            "@",
            "%",
            "%2e",
            "%38",
            "/",
            "\\",
            "?",
            "#",
            ",",
            " ",
            "-",
            "+",
            "_",
            "xn--",
            "[::1]",
            "192.0.2.7",
            "\0",
            "ä",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(5_000))]

        #[test]
        fn an_authority_that_was_read_reads_the_same_again(text in fuzz::text_like(GRAMMAR)) {
            let read = fuzz::held_to(20, text.as_bytes(), || Authority::read(text.as_bytes()));
            if let Ok(authority) = read {
                let written = authority.to_string();
                prop_assert_eq!(Authority::read(written.as_bytes()), Ok(authority.clone()));
                let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.:[]".contains(&byte);
                prop_assert!(written.bytes().all(is_plain), "{written}");
                // Whatever is left of the host is a port.
                let host = text.to_ascii_lowercase();
                let rest = host.strip_prefix(authority.host()).unwrap_or_default();
                let rest = rest.strip_prefix('.').unwrap_or(rest);
                prop_assert!(host.starts_with('[') || rest.is_empty() || rest.strip_prefix(':').is_some_and(
                    |port| port.bytes().all(|byte| byte.is_ascii_digit())), "{text}");
            }
        }
    }
}
