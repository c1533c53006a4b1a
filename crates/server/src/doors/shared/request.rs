//! Requests, as they come over the wire: well formed, bounded, and not yet [checked](super::question). These
//! types stop at this door.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};

use tidegate_config::Exact;

/// The most checks of one batch.
const BATCH_MAX: usize = 1000;
/// The most identifiers of one check: twice as many as a policy can have limits.
const KEYS_MAX: usize = 32;

/// The body of every call on one policy, well formed but not yet [checked](super::question).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request<'a> {
    #[serde(borrow)]
    pub(crate) policy: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) key: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) keys: Option<Named<'a>>,
    #[serde(default = "one")]
    pub(crate) cost: Exact,
}

/// The body of a batch.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchRequest<'a> {
    #[serde(borrow)]
    pub(crate) checks: Checks<'a>,
    /// Whether all are charged or none.
    #[serde(default)]
    pub(crate) atomic: bool,
    /// Whether each decision has the headers that a check of its own would be answered with.
    #[serde(default)]
    pub(crate) headers: bool,
}

/// At most [`BATCH_MAX`] checks: nothing is allocated for what comes after.
pub(crate) struct Checks<'a>(pub(crate) Vec<Object<Request<'a>>>);

/// What is written as an object. A struct alone would take a list of its fields as well.
pub(crate) struct Object<T>(pub(crate) T);

/// Text, borrowed from the body where it has no escapes.
#[derive(PartialEq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

/// At most [`KEYS_MAX`] identifiers by name, each name once.
pub(crate) struct Named<'a>(pub(crate) Vec<(Text<'a>, Text<'a>)>);

fn one() -> Exact {
    Exact(1)
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

impl<'de: 'a, 'a> Deserialize<'de> for Named<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamedVisitor;
        impl<'de> Visitor<'de> for NamedVisitor {
            type Value = Named<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object like {\"ip\":\"192.0.2.1\"}")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<'de>, A::Error> {
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
                Ok(Named(all))
            }
        }
        deserializer.deserialize_map(NamedVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Checks<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChecksVisitor;
        impl<'de> Visitor<'de> for ChecksVisitor {
            type Value = Checks<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {BATCH_MAX} checks")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Checks<'de>, A::Error> {
                let mut all = Vec::new();
                while let Some(request) = seq.next_element()? {
                    if all.len() == BATCH_MAX {
                        return Err(de::Error::invalid_length(all.len() + 1, &self));
                    }
                    all.push(request);
                }
                Ok(Checks(all))
            }
        }
        deserializer.deserialize_seq(ChecksVisitor)
    }
}
