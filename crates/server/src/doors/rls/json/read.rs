//! A request as JSON, the way protobuf spells messages: names in either case, numbers also as text, `null` for what is
//! not there.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::super::request::{
    Bad, DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Hits, OwnLimit, Request,
};
use crate::envoy::{Entry, Unit};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct JsonRequest<'a> {
    #[serde(borrow)]
    domain: Option<Cow<'a, str>>,
    #[serde(borrow)]
    descriptors: Option<AtMost<DESCRIPTORS_MAX, JsonDescriptor<'a>>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct JsonDescriptor<'a> {
    #[serde(borrow)]
    entries: Option<AtMost<ENTRIES_MAX, JsonEntry<'a>>>,
    limit: Option<JsonLimit>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonEntry<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    value: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct JsonLimit {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Number>,
    unit: Option<JsonUnit>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum JsonUnit {
    Number(u64),
    Name(String),
}

/// A whole number; protobuf writes those of 64 bits as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Number(u64),
    Text(String),
}

/// At most so many: nothing is allocated for what comes after.
struct AtMost<const N: usize, T>(Vec<T>);

impl JsonRequest<'_> {
    /// The question.
    pub(super) fn request(&self) -> Result<Request<'_>, Bad> {
        let hits = self.hits_addend.as_ref().map(|hits| hits.read("hitsAddend")).transpose()?;
        let hits = u32::try_from(hits.unwrap_or(0));
        let hits = hits.map_err(|_| Bad::new("hitsAddend does not fit into 32 bits"))?;
        let descriptors = self.descriptors.iter().flat_map(|all| &all.0);
        let request = Request {
            domain: self.domain.as_deref().unwrap_or_default(),
            descriptors: descriptors.map(|it| it.descriptor(hits)).collect::<Result<_, _>>()?,
        };
        request.checked()
    }
}

impl JsonDescriptor<'_> {
    fn descriptor(&self, hits_of_request: u32) -> Result<Descriptor<'_>, Bad> {
        let own = self.hits_addend.as_ref().map(|hits| hits.read("hitsAddend")).transpose()?;
        let entries = self.entries.iter().flat_map(|all| &all.0).map(JsonEntry::entry).collect();
        Ok(Descriptor {
            entries,
            limit: self.limit.as_ref().map(JsonLimit::own_limit).transpose()?,
            hits: Hits::of(own, self.is_negative_hits.unwrap_or(false), hits_of_request)?,
        })
    }
}

impl JsonEntry<'_> {
    fn entry(&self) -> Entry<'_> {
        Entry {
            key: self.key.as_deref().unwrap_or_default(),
            value: self.value.as_deref().unwrap_or_default(),
        }
    }
}

impl JsonLimit {
    fn own_limit(&self) -> Result<OwnLimit, Bad> {
        let requests = self.requests_per_unit.as_ref().map(|it| it.read("requestsPerUnit"));
        let requests_per_unit = u32::try_from(requests.transpose()?.unwrap_or(0))
            .map_err(|_| Bad::new("requestsPerUnit does not fit into 32 bits"))?;
        let unit = match &self.unit {
            Some(JsonUnit::Number(number)) => Unit::numbered(*number),
            Some(JsonUnit::Name(name)) => Unit::named(name),
            None => None,
        };
        let unit = unit.ok_or_else(|| Bad::new("the limit of a descriptor has no unit"))?;
        Ok(OwnLimit { requests_per_unit, unit })
    }
}

impl Number {
    fn read(&self, field: &str) -> Result<u64, Bad> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Text(text) => {
                text.parse().map_err(|_| Bad::new(format!("{field}: `{text}` is no whole number")))
            }
        }
    }
}

impl<'de, const N: usize, T: Deserialize<'de>> Deserialize<'de> for AtMost<N, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtMostVisitor<const N: usize, T>(PhantomData<T>);
        impl<'de, const N: usize, T: Deserialize<'de>> Visitor<'de> for AtMostVisitor<N, T> {
            type Value = AtMost<N, T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {N}")
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fuzz::{self, Grammar};

    /// Requests as protobuf spells them in JSON, whole and in parts.
    const GRAMMAR: Grammar = Grammar {
        whole: &[
            r#"{"domain":"d","hitsAddend":2,"descriptors":[{"entries":[{"key":"k","value":"v"}],"limit":{"requestsPerUnit":1,"unit":"DAY"}}]}"#,
        ],
        words: &[
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "\"domain\":\"edge\"",
            "\"descriptors\":[",
            "\"entries\":[",
            "{\"key\":\"k\",\"value\":\"v\"}",
            "{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"k\",\"value\":\"v\"}]}]}",
            "\"hitsAddend\":",
            "\"hits_addend\":\"7\"",
            "\"limit\":{\"requestsPerUnit\":1,\"unit\":\"DAY\"}",
            "\"isNegativeHits\":true",
            "null",
            "1",
            "-1",
            "\"18446744073709551616\"",
            "1e400",
            "\"",
            "\\u0000",
            " ",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(10_000))]

        #[test]
        fn whatever_a_body_holds_is_a_request_or_an_error(body in fuzz::bytes_like(GRAMMAR)) {
            let read = fuzz::held_to(300, &body, || {
                let json: JsonRequest<'_> = serde_json::from_slice(&body).ok()?;
                json.request().ok().map(|request| request.descriptors.len())
            });
            prop_assert!(read.is_none_or(|count| (1..=DESCRIPTORS_MAX).contains(&count)));
        }
    }
}
