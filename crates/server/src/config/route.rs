//! Which policy a request falls under.

use axum::http::Method;

use super::key::KeyParts;
use super::text::OneOrMany;
use crate::text::printable;

/// Requests of one kind, and what they fall under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    pub(crate) path: Option<Pattern>,
    /// None stand for all.
    pub(crate) methods: Vec<Method>,
    pub(crate) host: Option<Pattern>,
    pub(crate) policy: String,
    pub(crate) key: KeyParts,
    pub(crate) cost: u64,
}

#[allow(dead_code, reason = "for the doors that go by it")]
impl Route {
    /// Whether a request falls under it. The path is normalised and the host without its port, both by the caller.
    pub(crate) fn matches(&self, method: &Method, host: &str, path: &str) -> bool {
        let is_method = self.methods.is_empty() || self.methods.contains(method);
        let is_host = || self.host.as_ref().is_none_or(|it| it.matches(&host.to_ascii_lowercase()));
        is_method && self.path.as_ref().is_none_or(|it| it.matches(path)) && is_host()
    }
}

/// Text in which `*` stands for anything, also for nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pattern(String);

#[allow(dead_code, reason = "for the doors that go by it")]
impl Pattern {
    pub(crate) fn path(text: &str) -> Result<Self, String> {
        let is_path = text.starts_with(['/', '*']);
        is_path.then(|| Self(text.to_owned())).ok_or_else(|| {
            format!("`{}` is no path: expected one like /api/login or /api/*", printable(text))
        })
    }

    pub(crate) fn host(text: &str) -> Result<Self, String> {
        let of_a_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
        let is_host = !text.is_empty() && text.bytes().all(of_a_host);
        is_host.then(|| Self(text.to_ascii_lowercase())).ok_or_else(|| {
            let text = printable(text);
            format!("`{text}` is no host: expected one like api.example.com, without a port")
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Greedy from the left, which is enough where a star stands for anything: linear in the text.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
            return false;
        };
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        for part in parts {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(last)
    }
}

/// The methods that are named.
pub(crate) fn methods(text: &OneOrMany) -> Result<Vec<Method>, String> {
    let method = |name: &String| {
        let is_method = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase());
        Method::from_bytes(name.as_bytes())
            .ok()
            .filter(|_| is_method)
            .ok_or_else(|| format!("`{}` is no method: expected one like POST", printable(name)))
    };
    text.as_slice().iter().map(method).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("/api/login", "/api/login", true),
            ("/api/login", "/api/login/", false),
            ("/api/*", "/api/", true),
            ("/api/*", "/api/a/b", true),
            ("/api/*", "/api", false),
            ("/*", "/", true),
            ("*", "", true),
            ("/*/edit", "/a/b/edit", true),
            ("/*/edit", "/edit", false),
            ("/a*b*c", "/abbc", true),
            ("/a*b*c", "/acb", false),
            ("/a*a", "/a", false), // the two must not share one
        ] {
            assert_eq!(Pattern::path(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
    }
}
