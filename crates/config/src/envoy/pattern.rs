//! Texts with `*` in them, which stands for any number of characters.

/// A pattern for whole texts: `path_/api/*/users`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// What is before the first `*`.
    start: Box<[u8]>,
    /// What is between two of them, in order.
    within: Vec<Box<[u8]>>,
    /// What is after the last one.
    end: Box<[u8]>,
}

impl Pattern {
    /// `None` where there is no `*`.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (start, rest) = text.split_once('*')?;
        let (within, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        let bytes = |part: &str| -> Box<[u8]> { part.as_bytes().into() };
        let within = within.split('*').filter(|part| !part.is_empty()).map(bytes).collect();
        Some(Self { start: bytes(start), within, end: bytes(end) })
    }

    /// Whether the whole text is spelt so. Each part is looked for once, from where the one before it ended: the first
    /// place where it fits leaves most to the others.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let rest = text.strip_prefix(&*self.start).and_then(|rest| rest.strip_suffix(&*self.end));
        let Some(mut rest) = rest else { return false };
        for part in &self.within {
            let Some(at) = rest.windows(part.len()).position(|window| window == &**part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_number_of_characters_anywhere() {
        for (pattern, text, expected) in [
            ("path_/api/*", "path_/api/", true),
            ("path_/api/*", "path_/api/users", true),
            ("path_/api/*", "path_/apis", false),
            ("path_*/users", "path_/api/users", true),
            ("path_*/users", "path_/users/7", false),
            ("path_/*/a/*/b", "path_/x/a/y/b", true),
            ("path_/*/a/*/b", "path_/x/a/b", false),
            ("path_a*a", "path_a", false),
            ("path_a*a", "path_aa", true),
            ("a*b*b*c", "abxbc", true),
            ("a*b*b*c", "abc", false),
            ("a**c", "abc", true),
            ("*", "", true),
            ("*", "anything", true),
            ("ä*ö", "äüö", true),
        ] {
            let pattern = Pattern::new(pattern).unwrap();
            assert_eq!(pattern.matches(text.as_bytes()), expected, "{pattern:?} {text}");
        }
        assert_eq!(Pattern::new("path_/api"), None);
    }
}
