//! Patterns of paths and hosts.

use std::fmt;

use crate::identity::Path;

/// A path as routes write it: `/api/login`, `/users/*/posts`, `/api/*`. A star is one segment; the last one is
/// everything from there on, also nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PathPattern {
    text: String,
    segments: Vec<Segment>,
    open: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Name(String),
    Any,
}

/// A host as routes write it: `shop.example`, `*.shop.example`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HostPattern {
    Name(String),
    /// With the dot.
    Below(String),
}

impl PathPattern {
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        if !text.starts_with('/') {
            return Err("expected a path that begins with a slash, like /api/*");
        }
        let (before, open) = match text.strip_suffix("/*") {
            Some(before) => (before, true),
            None => (text, false),
        };
        let path = Path::read(if before.is_empty() { "/" } else { before });
        let path = path.map_err(|_| "expected a path without tricks, like /api/*")?;
        let names = path.counted().split('/').filter(|name| !name.is_empty());
        let segment = |name: &str| match name {
            "*" => Ok(Segment::Any),
            name if name.contains('*') => {
                Err("expected `*` as a whole segment: /api/* or /users/*/posts")
            }
            name => Ok(Segment::Name(name.to_owned())),
        };
        let segments = names.map(segment).collect::<Result<_, _>>()?;
        Ok(Self { text: text.to_owned(), segments, open })
    }

    pub(super) fn matches(&self, path: &Path) -> bool {
        let mut names = path.counted().split('/').filter(|name| !name.is_empty());
        let all = self.segments.iter().all(|segment| match (segment, names.next()) {
            (Segment::Name(expected), Some(name)) => expected == name,
            (Segment::Any, Some(_)) => true,
            (_, None) => false,
        });
        all && (self.open || names.next().is_none())
    }
}

impl HostPattern {
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let name = text.trim_end_matches('.').to_ascii_lowercase();
        let (below, rest) = match name.strip_prefix('*') {
            Some(rest) => (rest.starts_with('.'), rest),
            None => (true, name.as_str()),
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if !below || rest.trim_matches('.').is_empty() || !rest.bytes().all(plain) {
            return Err("expected a host without a port, like shop.example or *.shop.example");
        }
        Ok(if name.starts_with('*') { Self::Below(rest.to_owned()) } else { Self::Name(name) })
    }

    /// Whether a host in its only spelling is meant.
    pub(super) fn matches(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host == name,
            Self::Below(end) => host.len() > end.len() && host.ends_with(end.as_str()),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Below(end) => write!(f, "*{end}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_a_segment_and_the_last_one_is_the_rest() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let pattern = PathPattern::read(pattern).unwrap();
            assert_eq!(pattern.matches(&Path::read(path).unwrap()), expected, "{pattern} {path}");
        };
        check("/", "/", true);
        check("/", "/a", false);
        check("/*", "/", true);
        check("/*", "/a/b", true);
        check("/api/login", "/api/login", true);
        check("/api/login", "/api/login/", true);
        check("/api/login", "//api/./login", true);
        check("/api/login", "/api%2Flogin", true);
        check("/api/login", "/API/login", false);
        check("/api/login", "/api/login/x", false);
        check("/api/*", "/api", true);
        check("/api/*", "/api/", true);
        check("/api/*", "/api/a/b", true);
        check("/api/*", "/apix", false);
        check("/api/*", "/api/../admin", false);
        check("/users/*/posts", "/users/7/posts", true);
        check("/users/*/posts", "/users/posts", false);
        check("/users/*/posts", "/users/7/8/posts", false);
        check("/users/*/posts/*", "/users/7/posts/9", true);
        check("/v1/users:login", "/v1/users%3alogin", true);
    }

    #[test]
    fn patterns_that_make_no_sense_are_refused() {
        for text in ["", "api", "*", "/api*", "/a*/b", "/a%00", "/a\\..\\b"] {
            assert!(PathPattern::read(text).is_err(), "{text}");
        }
        for text in ["", "*", "*.", ".", "*shop.example", "a b", "http://shop.example", "a*b"] {
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
            ("[::1]", "[::1]", true),
        ] {
            assert_eq!(HostPattern::read(pattern).unwrap().matches(host), expected, "{pattern}");
        }
    }
}
