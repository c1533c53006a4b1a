//! Patterns in which `*` stands for any number of bytes.

/// A pattern for a whole text: `/api/*/users`, `*.shop.example`. A `*` stands for any bytes, also for none; everything
/// else stands for itself. Paths are not special: a `*` passes a `/`.
///
/// ```
/// use tidegate_core::Wildcard;
///
/// let pattern = Wildcard::new("/api/*/users");
/// assert!(pattern.matches(b"/api/v1/users") && pattern.matches(b"/api/a/b/users"));
/// assert!(!pattern.matches(b"/api/users"));
/// assert!(Wildcard::new("/api").matches(b"/api") && !Wildcard::new("/api").has_star());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Wildcard {
    /// Before the first `*`, or all of it.
    start: Box<[u8]>,
    /// Behind the first `*`, if there is one.
    rest: Option<Rest>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Rest {
    /// Between two `*`, in order.
    within: Box<[Part]>,
    /// Behind the last `*`.
    end: Box<[u8]>,
}

/// Bytes to search for, never empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Part {
    bytes: Box<[u8]>,
    /// By how many bytes are matched: how many still are where the next one differs (Knuth, Morris and Pratt).
    fallback: Box<[usize]>,
}

impl Wildcard {
    /// Every text is a pattern.
    pub fn new(pattern: &str) -> Self {
        let Some((start, rest)) = pattern.split_once('*') else {
            return Self { start: pattern.as_bytes().into(), rest: None };
        };
        let (within, end) = rest.rsplit_once('*').unwrap_or(("", rest));
        let parts = within.split('*').filter(|part| !part.is_empty());
        let within = parts.map(|part| Part::new(part.as_bytes())).collect();
        Self {
            start: start.as_bytes().into(),
            rest: Some(Rest { within, end: end.as_bytes().into() }),
        }
    }

    /// Whether there is a `*` in it: otherwise it is the only text that it matches.
    pub const fn has_star(&self) -> bool {
        self.rest.is_some()
    }

    /// Whether the whole text matches, in a time that is linear in it. Each part is searched once, from where the one
    /// before it ended: the first place where a part fits leaves most for the others, so that nothing is tried again.
    pub fn matches(&self, text: &[u8]) -> bool {
        let Some(text) = text.strip_prefix(&*self.start) else { return false };
        let Some(rest) = &self.rest else { return text.is_empty() };
        let Some(mut text) = text.strip_suffix(&*rest.end) else { return false };
        rest.within.iter().all(|part| match part.skip_in(text) {
            Some(behind) => {
                text = behind;
                true
            }
            None => false,
        })
    }
}

impl Part {
    fn new(bytes: &[u8]) -> Self {
        let mut part = Self { bytes: bytes.into(), fallback: vec![0; bytes.len()].into() };
        let mut matched = 0;
        for (at, byte) in bytes.iter().enumerate().skip(1) {
            matched = part.advance(matched, *byte);
            part.fallback[at] = matched;
        }
        part
    }

    /// How many bytes are matched after one more.
    fn advance(&self, mut matched: usize, byte: u8) -> usize {
        while matched > 0 && self.bytes[matched] != byte {
            matched = self.fallback[matched - 1];
        }
        matched + usize::from(self.bytes[matched] == byte)
    }

    /// The text behind the first place where this stands.
    fn skip_in<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        let mut matched = 0;
        for (at, byte) in text.iter().enumerate() {
            matched = self.advance(matched, *byte);
            if matched == self.bytes.len() {
                return Some(&text[at + 1..]);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries every length for every star.
    fn naive(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|length| naive(rest, &text[length..])),
            Some((byte, rest)) => text.first() == Some(byte) && naive(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn the_answer_is_that_of_trying_everything(pattern in "[ab*]{0,8}", text in "[ab*]{0,10}") {
            let found = Wildcard::new(&pattern).matches(text.as_bytes());
            prop_assert_eq!(found, naive(pattern.as_bytes(), text.as_bytes()));
        }
    }

    #[test]
    fn a_star_stands_for_any_bytes_anywhere() {
        for (pattern, text, expected) in [
            ("path_/api/*", "path_/api/", true),
            ("path_/api/*", "path_/api/users", true),
            ("path_/api/*", "path_/apis", false),
            ("path_*/users", "path_/api/users", true),
            ("path_*/users", "path_/users/7", false),
            ("/*/a/*/b", "/x/a/y/b", true),
            ("/*/a/*/b", "/x/a/b", false),
            ("/a*a", "/a", false), // the two must not share one
            ("/a*a", "/aa", true),
            ("a*b*b*c", "abxbc", true),
            ("a*b*b*c", "abc", false),
            ("a**c", "abc", true),
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("*.shop.example", "a.b.shop.example", true),
            ("*.shop.example", "shop.example", false),
            ("ä*ö", "äüö", true),
        ] {
            let pattern = Wildcard::new(pattern);
            assert_eq!(pattern.matches(text.as_bytes()), expected, "{pattern:?} {text}");
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_their_text() {
        let pattern = Wildcard::new(&"a*".repeat(2_000));
        let text = "a".repeat(1_999) + &"b".repeat(50_000);
        assert!(!pattern.matches(text.as_bytes()));
        // Half a text that nearly fits everywhere: 10^10 steps for a search that begins again each time.
        let pattern = Wildcard::new(&format!("*{}b*", "a".repeat(100_000)));
        assert!(!pattern.matches("a".repeat(200_000).as_bytes()));
    }
}
