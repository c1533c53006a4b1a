//! Patterns of paths and hosts: `*` matches any text, also none.

use tidegate_core::Wildcard;

use crate::{Authority, Case, Path};

/// A path pattern of a route: `/api/login`, `/api/*`, `/users/*/posts`. One that ends in `/*` also matches the path above:
/// a server that answers `/api/` answers `/api` as well.
///
/// ```
/// use tidegate_request::{Case, PathPattern};
///
/// let calls = PathPattern::read("/rpc/*", Case::Sensitive)?;
/// assert!(calls.matches("/rpc/orders") && calls.matches("/rpc") && !calls.matches("/rpcs"));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPattern {
    pub(super) text: String,
    /// The same in the one spelling of paths.
    spelling: String,
    path: Wildcard,
    /// The path above, where it ends in `/*`.
    above: Option<Wildcard>,
}

/// A host pattern of a route: `shop.example`, `*.shop.example`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HostPattern {
    pub(super) text: String,
    host: Wildcard,
}

impl PathPattern {
    /// Reads a pattern. The error says what was expected.
    pub fn read(text: &str, case: Case) -> Result<Self, &'static str> {
        if text.contains(['?', '#']) {
            return Err("one without `?` and `#`: only the path is matched");
        }
        // In the one spelling, as paths are matched.
        let path = Path::read(text);
        let path = path.map_err(|_| "one like /api/login or /api/*")?;
        if path.has_parameters() {
            return Err("one without `;`: parameters are not matched");
        }
        let path = path.counted_in(case);
        let above = path.strip_suffix("/*").map(Wildcard::new);
        let spelling = path.clone().into_owned();
        Ok(Self { text: text.to_owned(), spelling, path: Wildcard::new(&path), above })
    }

    /// Whether it matches a path in its one spelling, in the letter case of the pattern.
    pub fn matches(&self, path: &str) -> bool {
        let path = path.as_bytes();
        self.path.matches(path) || self.above.as_ref().is_some_and(|above| above.matches(path))
    }
}

impl PathPattern {
    /// Whether it matches every path that another pattern matches. Only its own `*` matches the `*` of another.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.path.matches(other.spelling.as_bytes())
    }
}

impl HostPattern {
    /// Whether it matches every host that another pattern matches.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.matches(&other.text)
    }

    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let expected = "one like api.example.com, without a port";
        if !text.contains('*') {
            let authority = Authority::read(text.as_bytes()).map_err(|_| expected)?;
            if authority.port().is_some() || text.ends_with(':') {
                return Err(expected);
            }
            let host = authority.into_host();
            return Ok(Self { host: Wildcard::new(&host), text: host });
        }
        let host = text.trim_end_matches('.').to_ascii_lowercase();
        let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
        if !host.bytes().all(is_of_host) {
            return Err(expected);
        }
        Ok(Self { host: Wildcard::new(&host), text: host })
    }

    /// Whether it matches a host in its one spelling.
    pub(super) fn matches(&self, host: &str) -> bool {
        self.host.matches(host.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_and_a_path_for_all_its_spellings() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let pattern = PathPattern::read(pattern, Case::Sensitive).unwrap();
            assert_eq!(
                pattern.matches(Path::read(path).unwrap().counted()),
                expected,
                "{} {path}",
                pattern.text
            );
        };
        check("/", "/", true);
        check("/", "/a", false);
        check("/*", "/", true);
        check("/*", "/a/b", true);
        check("/api/login", "/api/login", true);
        check("/api/login", "/api/login/", true);
        check("/api/login/", "/api/login", true);
        check("/api/login", "//api/./login", true);
        check("/api/login", "/api%2Flogin", true);
        check("/api/login", "/API/login", false);
        check("/api/login", "/api/login/x", false);
        check("/api/*", "/api", true);
        check("/api/*", "/api/", true);
        check("/api/*", "/api/a/b", true);
        check("/api/*", "/apix", false);
        check("/api/*", "/api/../admin", false);
        check("/api*", "/apix", true);
        check("/users/*/posts", "/users/7/posts", true);
        check("/users/*/posts", "/users/posts", false);
        check("/users/*/posts/*", "/users/7/posts/9", true);
        check("/users/*/posts/*", "/users/7/posts", true);
        check("/a*b*c", "/abbc", true);
        check("/a*b*c", "/acb", false);
        check("/a*a", "/a", false); // the two must not share one
        check("/v1/users:login", "/v1/users%3alogin", true);
        check("/users/*/posts", "/users;a/7;b/posts;c", true);
    }

    #[test]
    fn patterns_that_make_no_sense_are_refused() {
        for text in ["", "api", "*", "/a%00", "/a\\..\\b", "/a;b", "/a%3Bb"] {
            assert!(PathPattern::read(text, Case::Sensitive).is_err(), "{text}");
        }
        for text in [
            "",
            ".",
            "a b",
            "http://shop.example",
            "shop.example:80",
            "shop.example:",
            "ä",
            "2001:db8::1",
            "*:80",
        ] {
            assert!(HostPattern::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_host_is_itself_or_below() {
        for (pattern, host, expected) in [
            ("Shop.Example", "shop.example", true),
            ("shop.example", "www.shop.example", false),
            ("*.shop.example", "www.shop.example", true),
            ("*.shop.example", "a.b.shop.example", true),
            ("*.shop.example", "shop.example", false),
            ("*.shop.example", "eshop.example", false),
            ("*", "anything", true),
            ("[::1]", "[::1]", true),
            ("[2001:DB8:0::1]", "[2001:db8::1]", true),
            ("shop.example.", "shop.example", true),
        ] {
            assert_eq!(HostPattern::read(pattern).unwrap().matches(host), expected, "{pattern}");
        }
    }
}
