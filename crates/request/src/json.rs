//! A value in the JSON body of a request.

use std::cell::Cell;
use std::fmt;

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Far deeper than a value to count by stands.
const TOKENS_MAX: usize = 16;
/// From 2^53 on, servers read different numbers.
const WHOLE_END: f64 = 9_007_199_254_740_992.0;
/// Some writers begin with it.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A JSON pointer (RFC 6901) to a value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pointer {
    text: String,
    tokens: Vec<String>,
}

/// A name on the way to the value is there twice, or in another letter case, which some servers ignore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repeated;

/// Whether a request has a body of JSON that is not compressed.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let is_plain =
        |line: &HeaderValue| line.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    types.any(names_json) && headers.get_all(CONTENT_ENCODING).iter().all(is_plain)
}

/// `application/json`, `text/json` and whatever ends in `+json`.
fn names_json(line: &HeaderValue) -> bool {
    let name = line.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).trim().to_ascii_lowercase();
    matches!(&*name, "application/json" | "text/json") || name.ends_with("+json")
}

/// A text, a whole number below 2^53 or a truth value as text. `None` for others, for empty text, and for text with a NUL,
/// which marks keys.
pub(crate) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => plain(text),
        Value::Number(number) => whole(number.as_f64()?),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn plain(text: &str) -> Option<String> {
    (!text.is_empty() && !text.contains('\0')).then(|| text.to_owned())
}

/// Many servers read `7`, `7.0` and `70e-1` as the same number.
fn whole(number: f64) -> Option<String> {
    let is_whole = number.fract() == 0.0 && number.abs() < WHOLE_END;
    // The sum makes 0 of -0.
    is_whole.then(|| format!("{:.0}", number + 0.0))
}

impl Pointer {
    /// `None` if it is no pointer to something inside a body.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut tokens = Vec::new();
        for token in text.strip_prefix('/')?.split('/') {
            let is_escape = |rest: &str| rest.starts_with(['0', '1']);
            if !token.split('~').skip(1).all(is_escape) || tokens.len() == TOKENS_MAX {
                return None;
            }
            tokens.push(token.replace("~1", "/").replace("~0", "~"));
        }
        Some(Self { text: text.to_owned(), tokens })
    }

    /// The value in a body; `None` if there is none to count by, or if the body does not begin with JSON. What follows is
    /// not looked at: Go's `Decoder` reads the first value and ignores it.
    pub(crate) fn value(&self, body: &[u8]) -> Result<Option<String>, Repeated> {
        let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
        let is_repeated = Cell::new(false);
        let mut reader = serde_json::Deserializer::from_slice(body);
        let walk = Walk { left: &self.tokens, is_repeated: &is_repeated };
        let found = walk.deserialize(&mut reader);
        if is_repeated.get() { Err(Repeated) } else { Ok(found.ok().flatten()) }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The way that is left to the value. What is beside it is skipped, however deep, and not kept.
#[derive(Clone, Copy)]
struct Walk<'p> {
    left: &'p [String],
    is_repeated: &'p Cell<bool>,
}

impl Walk<'_> {
    fn here(self, value: Option<String>) -> Option<String> {
        value.filter(|_| self.left.is_empty())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Option<String>, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<String>, E> {
        Ok(self.here(plain(text.trim())))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Option<String>, E> {
        Ok(self.here(Some(truth.to_string())))
    }

    #[expect(clippy::cast_precision_loss, reason = "what is not exact is not below the bound")]
    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<String>, E> {
        self.visit_f64(number as f64)
    }

    #[expect(clippy::cast_precision_loss, reason = "what is not exact is not below the bound")]
    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<String>, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<String>, E> {
        Ok(self.here(whole(number)))
    }

    fn visit_unit<E: Error>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<String>, A::Error> {
        let mut found = None;
        if let Some((token, left)) = self.left.split_first() {
            // An index has one spelling.
            let index = token.parse::<usize>().ok().filter(|it| it.to_string() == *token);
            let mut before = index.unwrap_or(usize::MAX);
            while before > 0 && items.next_element::<IgnoredAny>()?.is_some() {
                before -= 1;
            }
            if before == 0 {
                found = items.next_element_seed(Walk { left, ..self })?.flatten();
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Option<String>, A::Error> {
        let Some((token, left)) = self.left.split_first() else {
            while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(None);
        };
        let mut found = None;
        while let Some(likeness) = members.next_key_seed(Likeness(token))? {
            let value = match likeness {
                Like::Same => members.next_value_seed(Walk { left, ..self })?,
                Like::Respelled | Like::Other => {
                    members.next_value::<IgnoredAny>().map(|_| None)?
                }
            };
            let is_second = likeness == Like::Same && found.is_some();
            if is_second || likeness == Like::Respelled {
                self.is_repeated.set(true);
            }
            if likeness == Like::Same {
                found = Some(value);
            }
        }
        Ok(found.flatten())
    }
}

/// Compares a name of an object with this one.
struct Likeness<'p>(&'p str);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Like {
    Same,
    /// In another letter case.
    Respelled,
    Other,
}

impl<'de> DeserializeSeed<'de> for Likeness<'_> {
    type Value = Like;

    /// As bytes: half a surrogate pair in a name, which other servers read, must not hide its neighbours.
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Like, D::Error> {
        reader.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Likeness<'_> {
    type Value = Like;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E: Error>(self, name: &[u8]) -> Result<Like, E> {
        Ok(match str::from_utf8(name) {
            Ok(name) if name == self.0 => Like::Same,
            Ok(name) if folded(name).eq(folded(self.0)) => Like::Respelled,
            _ => Like::Other,
        })
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Like, E> {
        self.visit_bytes(name.as_bytes())
    }
}

/// Without letter case: Go reads `ſub` as `sub`, whose capital letter is the same.
fn folded(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests;
