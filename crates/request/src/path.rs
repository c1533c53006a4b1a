//! The one normaliser of paths: another spelling of a path must not get another limit.

use std::borrow::Cow;
use std::fmt;

/// Whether letter case matters, in a path and in a value of a body.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Case {
    /// `/Login` is another path than `/login`, `Ann` another value than `ann`.
    #[default]
    Sensitive,
    /// Both are the same, as for the server behind.
    Insensitive,
}

/// A path in its one spelling: no empty or dot segments, no unnecessary escapes, and escapes in upper case.
///
/// An escaped slash and a backslash count as slashes, as in many servers. Parameters (the part of a segment after a
/// semicolon) are forwarded, but not counted: some servers drop them, for others they are part of the name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    forwarded: String,
    /// Without parameters, where it has some.
    bare: Option<String>,
}

/// A path that servers read differently, so that no route can match it reliably.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadPath {
    /// It does not begin with a slash.
    Relative,
    /// It has a NUL, where some servers cut the path.
    Nul,
    /// It has `..` behind an escaped slash: for some servers that is the parent, for others a name.
    Ambiguous,
    /// It has parameters without a name: some servers read that as no segment, or as the parent.
    Nameless,
}

impl Path {
    /// Reads a path as it was sent, without its query.
    pub fn read(sent: &str) -> Result<Self, BadPath> {
        if !sent.starts_with('/') {
            return Err(BadPath::Relative);
        }
        let (plain, has_hidden_slash) = unescaped(sent)?;
        let mut segments: Vec<&str> = Vec::new();
        let mut climbs = false;
        for segment in plain.split('/') {
            match (segment, name(segment)) {
                ("" | ".", _) => {}
                ("..", _) => {
                    climbs = true;
                    segments.pop();
                }
                (_, "" | "." | "..") => return Err(BadPath::Nameless),
                _ => segments.push(segment),
            }
        }
        if climbs && has_hidden_slash {
            return Err(BadPath::Ambiguous);
        }
        let is_folder = matches!(plain.rsplit('/').next(), Some("" | "." | ".."));
        let end = if is_folder && !segments.is_empty() { "/" } else { "" };
        Ok(Self { forwarded: format!("/{}{end}", segments.join("/")), bare: bare(&segments) })
    }

    /// The path to forward.
    pub fn as_str(&self) -> &str {
        &self.forwarded
    }

    /// Whether a segment has parameters.
    pub const fn has_parameters(&self) -> bool {
        self.bare.is_some()
    }

    /// The path that is matched and counted: `/login/` and `/login;x=1` are `/login`, as for most servers.
    pub fn counted(&self) -> &str {
        let path = self.bare.as_ref().unwrap_or(&self.forwarded);
        match path.strip_suffix('/') {
            Some("") | None => path,
            Some(rest) => rest,
        }
    }

    /// The path that is matched and counted where letter case may not matter.
    pub fn counted_in(&self, case: Case) -> Cow<'_, str> {
        match case {
            Case::Sensitive => self.counted().into(),
            Case::Insensitive => folded(self.counted()),
        }
    }
}

/// A counted path without letter case. Bytes that are no text stay, and the text around them is folded.
fn folded(path: &str) -> Cow<'_, str> {
    if !path.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'%') {
        return path.into();
    }
    let decoded: Vec<u8> = bytes(path.as_bytes()).map(|(byte, _)| byte).collect();
    let mut lower = Vec::with_capacity(decoded.len());
    for chunk in decoded.utf8_chunks() {
        let text: String = chunk.valid().chars().flat_map(without_case).collect();
        lower.extend_from_slice(text.as_bytes());
        lower.extend_from_slice(chunk.invalid());
    }
    let mut plain = String::with_capacity(path.len());
    for byte in lower {
        if byte == b'/' { plain.push('/') } else { push(&mut plain, byte) }
    }
    plain.into()
}

/// To upper case in between, because some small letters share one capital, and by letter: in a text, the last sigma of a
/// word has a form of its own.
pub(crate) fn without_case(letter: char) -> impl Iterator<Item = char> {
    letter.to_lowercase().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// A segment without its parameters. Escaped semicolons count too: a proxy behind us may remove the escape.
fn name(segment: &str) -> &str {
    let start = [";", "%3B"].iter().filter_map(|mark| segment.find(mark)).min();
    &segment[..start.unwrap_or(segment.len())]
}

fn bare(segments: &[&str]) -> Option<String> {
    let names = segments.iter().map(|segment| name(segment));
    let has_parameters = names.clone().ne(segments.iter().copied());
    has_parameters.then(|| names.flat_map(|name| ["/", name]).collect())
}

/// Removes unnecessary escapes, and returns whether a slash was escaped or a backslash.
fn unescaped(sent: &str) -> Result<(String, bool), BadPath> {
    let (mut plain, mut has_hidden_slash) = (String::with_capacity(sent.len()), false);
    for (byte, escaped) in bytes(sent.as_bytes()) {
        match byte {
            0 => return Err(BadPath::Nul),
            b'/' if !escaped => plain.push('/'),
            b'/' | b'\\' => {
                has_hidden_slash = true;
                plain.push('/');
            }
            b';' if escaped => escape(&mut plain, byte),
            byte => push(&mut plain, byte),
        }
    }
    Ok((plain, has_hidden_slash))
}

/// A name or value of a query in its one spelling.
pub(super) fn component(sent: &str) -> String {
    let mut plain = String::with_capacity(sent.len());
    for (byte, escaped) in bytes(sent.as_bytes()) {
        match byte {
            b'+' if !escaped => plain.push_str("%20"),
            // An escaped separator is not a separator.
            b'+' | b'&' | b'=' | b';' if escaped => escape(&mut plain, byte),
            byte => push(&mut plain, byte),
        }
    }
    plain
}

/// The unescaped bytes, each with whether it was escaped.
pub(super) fn bytes(sent: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = sent;
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        let (byte, after) = match (first, after) {
            (b'%', [high, low, after @ ..]) => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => ((high << 4 | low, true), after),
                _ => ((b'%', false), &rest[1..]),
            },
            _ => ((*first, false), after),
        };
        rest = after;
        Some(byte)
    })
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Characters that a path may contain (RFC 3986, `pchar`) stay; all others are escaped.
fn push(plain: &mut String, byte: u8) {
    if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte) {
        plain.push(char::from(byte));
    } else {
        escape(plain, byte);
    }
}

fn escape(plain: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble & 15)]);
    plain.extend(['%', digit(byte >> 4), digit(byte)]);
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Relative => "does not begin with a slash",
            Self::Nul => "has a NUL in it",
            Self::Ambiguous => "goes up across an escaped slash",
            Self::Nameless => "has a semicolon without a name before it",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_spelling_of_a_path_is_the_same_path() {
        for (sent, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/api/login", "/api/login"),
            ("/api//login", "/api/login"),
            ("///api/./login", "/api/login"),
            ("/api/x/../login", "/api/login"),
            ("/api/%2e%2E/api/login", "/api/login"),
            ("/../../api/login", "/api/login"),
            ("/%61pi/log%69n", "/api/login"),
            ("/api%2Flogin", "/api/login"),
            ("/api%2flogin", "/api/login"),
            ("/api%5Clogin", "/api/login"),
            (r"/api\login", "/api/login"),
            ("/users%3Alogin", "/users:login"),
            ("/api/login/", "/api/login/"),
            ("/api/login/.", "/api/login/"),
            ("/api/login/x/..", "/api/login/"),
            ("/a%20b", "/a%20b"),
            ("/a b", "/a%20b"),
            ("/ä", "/%C3%A4"),
            ("/%c3%a4", "/%C3%A4"),
            ("/100%", "/100%25"),
            ("/%zz", "/%25zz"),
            ("/%252F", "/%252F"), // escaped twice, it is only a name
            ("/...", "/..."),
            ("/a;b=c/d%3be", "/a;b=c/d%3Be"), // a name with a semicolon is not one with parameters
            ("/a;b/../c", "/c"),
        ] {
            assert_eq!(Path::read(sent).as_ref().map(Path::as_str), Ok(expected), "{sent}");
        }
    }

    #[test]
    fn what_servers_read_differently_is_refused() {
        for (sent, expected) in [
            ("", BadPath::Relative),
            ("api", BadPath::Relative),
            ("*", BadPath::Relative),
            ("/api%00", BadPath::Nul),
            ("/a\0", BadPath::Nul),
            ("/static%2F..%2Fapi", BadPath::Ambiguous),
            ("/static/..%5Capi", BadPath::Ambiguous),
            (r"/static\..\api", BadPath::Ambiguous),
            ("/static/..;/api", BadPath::Nameless),
            ("/static/..%3bx=1/api", BadPath::Nameless),
            ("/static%2F..;/api", BadPath::Nameless),
            ("/.;/api", BadPath::Nameless),
            ("/;x/api", BadPath::Nameless),
            ("/api/;", BadPath::Nameless),
        ] {
            assert_eq!(Path::read(sent), Err(expected), "{sent}");
        }
    }

    #[test]
    fn neither_a_slash_at_the_end_nor_parameters_make_another_path() {
        for (sent, expected) in [
            ("/", "/"),
            ("/a/", "/a"),
            ("/a", "/a"),
            ("/a/b//", "/a/b"),
            ("/a;x=1", "/a"),
            ("/a;x=1;y/", "/a"),
            ("/a;x/b%3By;z", "/a/b"),
            ("/a%253Bx", "/a%253Bx"), // escaped twice, it is only a name
        ] {
            assert_eq!(Path::read(sent).unwrap().counted(), expected, "{sent}");
        }
    }

    #[test]
    fn letter_case_makes_no_other_path_where_it_does_not_matter() {
        for (sent, expected) in [
            ("/Login", "/login"),
            ("/LOGIN/", "/login"),
            ("/L%4Fgin", "/login"),
            ("/a%2FB;X=1", "/a/b"),
            ("/%C3%84", "/%C3%A4"),
            ("/Ä", "/%C3%A4"),
            ("/%E2%84%AAey", "/key"), // the sign for Kelvin
            ("/\u{17f}ale", "/sale"),
            ("/%FFA", "/%FFa"),
            ("/%C3%89/%FF", "/%C3%A9/%FF"),
            ("/%C3%89%C3A", "/%C3%A9%C3a"),
            ("/ΟΔΟΣ", "/%CE%BF%CE%B4%CE%BF%CF%83"),
            ("/οδος/x", "/%CE%BF%CE%B4%CE%BF%CF%83/x"), // the final form
            ("/STRA\u{1e9e}E", "/strasse"),
            ("/straße", "/strasse"),
            ("/%25A?", "/%25a%3F"),
        ] {
            let path = Path::read(sent).unwrap();
            assert_eq!(path.counted_in(Case::Insensitive), expected, "{sent}");
            assert_eq!(path.counted_in(Case::Sensitive), path.counted(), "{sent}");
        }
    }

    #[test]
    fn values_of_a_query_have_one_spelling() {
        for (sent, expected) in [
            ("a+b", "a%20b"),
            ("a%20b", "a%20b"),
            ("a%2Bb", "a%2Bb"),
            ("%61", "a"),
            ("%3d", "%3D"),
            ("%00", "%00"),
        ] {
            assert_eq!(component(sent), expected);
        }
    }

    proptest! {
        #[test]
        fn a_path_that_was_read_reads_the_same_again(sent in "/[a-c./%\\\\25eEfFcC\u{0}-\u{ff}]{0,24}") {
            if let Ok(path) = Path::read(&sent) {
                prop_assert_eq!(Path::read(path.as_str()), Ok(path.clone()));
                prop_assert!(!path.as_str().contains("//") && path.as_str().is_ascii());
            }
        }

        #[test]
        fn nobody_gets_another_limit_with_parameters(
            segments in proptest::collection::vec(("[a-z]{1,3}|[.]{0,2}", "((;|%3[bB])[a-z;=.%]{0,5})?"), 1..5),
        ) {
            let with: String = segments.iter().flat_map(|(name, more)| ["/", name, more]).collect();
            let without: String = segments.iter().flat_map(|(name, _)| ["/", name]).collect();
            if let Ok(path) = Path::read(&with) {
                let plain = Path::read(&without).unwrap();
                prop_assert_eq!(path.counted(), plain.counted());
            }
        }

        #[test]
        fn a_path_without_case_is_a_path(sent in "/[a-cA-C./%25eEfFcC\u{0}-\u{ff}]{0,24}") {
            if let Ok(path) = Path::read(&sent) {
                let folded = path.counted_in(Case::Insensitive).into_owned();
                let again = Path::read(&folded).unwrap();
                prop_assert_eq!(again.counted(), &folded);
                prop_assert_eq!(again.counted_in(Case::Insensitive), folded);
            }
        }

        #[test]
        fn no_escape_makes_another_path(name in "[a-z:@!]{1,12}", at in 0_usize..12) {
            let at = at % name.len();
            let escaped = format!("/{}%{:02x}{}", &name[..at], name.as_bytes()[at], &name[at + 1..]);
            prop_assert_eq!(Path::read(&escaped), Path::read(&format!("/{name}")));
        }
    }
}
