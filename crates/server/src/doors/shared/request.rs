//! Request bodies as decoded from JSON: well formed and bounded, but not yet [validated](super::question).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use tidegate_config::SafeInteger;

/// Maximum checks of one batch.
const BATCH_MAX: usize = 1000;
/// Maximum keys of one check: twice the limits that a policy can have.
const KEYS_MAX: usize = 32;

/// The body of every call on one policy.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub(crate) policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) key: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) keys: Option<NamedKeys<'a>>,
    #[serde(default = "one")]
    pub(crate) cost: SafeInteger,
}

/// The body of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchRequest<'a> {
    #[serde(borrow)]
    pub(crate) checks: AtMost<BATCH_MAX, Object<Request<'a>>>,
    /// Whether all checks are charged or none.
    #[serde(default)]
    pub(crate) atomic: bool,
    /// Whether each decision includes the headers of a single check.
    #[serde(default)]
    pub(crate) headers: bool,
}

/// At most `N` elements: those after them are not allocated.
pub(crate) struct AtMost<const N: usize, T>(pub(crate) Vec<T>);

/// What an error calls the elements of a list, after their number.
pub(crate) trait Element {
    const NAME: &'static str = "";
}

impl Element for Object<Request<'_>> {
    const NAME: &'static str = " checks";
}

/// A JSON object. serde would also accept a struct as a list of its fields.
pub(crate) struct Object<T>(pub(crate) T);

/// A string, borrowed from the body if it has no escapes.
#[derive(PartialEq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

/// At most [`KEYS_MAX`] named keys, each name once.
pub(crate) struct NamedKeys<'a>(pub(crate) Vec<(Text<'a>, Text<'a>)>);

fn one() -> SafeInteger {
    SafeInteger(1)
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for NamedKeys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamedKeysVisitor;
        impl<'de> Visitor<'de> for NamedKeysVisitor {
            type Value = NamedKeys<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object like {\"ip\":\"192.0.2.1\"}")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NamedKeys<'de>, A::Error> {
                let mut all: Vec<(Text<'de>, Text<'de>)> = Vec::new();
                while let Some((name, value)) = map.next_entry()? {
                    if all.len() == KEYS_MAX {
                        return Err(de::Error::custom(format!("more than {KEYS_MAX} keys")));
                    }
                    if all.iter().any(|(earlier, _)| *earlier == name) {
                        return Err(de::Error::custom("two keys of the same name"));
                    }
                    all.push((name, value));
                }
                Ok(NamedKeys(all))
            }
        }
        deserializer.deserialize_map(NamedKeysVisitor)
    }
}

impl<'de, const N: usize, T: Deserialize<'de> + Element> Deserialize<'de> for AtMost<N, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtMostVisitor<const N: usize, T>(PhantomData<T>);
        impl<'de, const N: usize, T: Deserialize<'de> + Element> Visitor<'de> for AtMostVisitor<N, T> {
            type Value = AtMost<N, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N}{}", T::NAME)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<AtMost<N, T>, A::Error> {
                let mut all = Vec::new();
                while let Some(next) = seq.next_element()? {
                    if all.len() == N {
                        return Err(de::Error::invalid_length(N + 1, &self));
                    }
                    all.push(next);
                }
                Ok(AtMost(all))
            }
        }
        deserializer.deserialize_seq(AtMostVisitor(PhantomData))
    }
}
