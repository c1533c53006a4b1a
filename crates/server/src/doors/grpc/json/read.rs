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
use crate::doors::shared::request::Object;
use tidegate_config::envoy::{Entry, Unit};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct JsonRequest<'a> {
    #[serde(borrow)]
    domain: Option<Cow<'a, str>>,
    #[serde(borrow)]
    descriptors: Option<AtMost<DESCRIPTORS_MAX, Object<JsonDescriptor<'a>>>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Scalar>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct JsonDescriptor<'a> {
    #[serde(borrow)]
    entries: Option<AtMost<ENTRIES_MAX, Object<JsonEntry<'a>>>>,
    limit: Option<Object<JsonLimit>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Scalar>,
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
    requests_per_unit: Option<Scalar>,
    unit: Option<Scalar>,
}

/// A number or text, as text: protobuf takes one for the other. What it has to be is told by its field.
struct Scalar(String);

/// At most so many: nothing is allocated for what comes after.
struct AtMost<const N: usize, T>(Vec<T>);

impl JsonRequest<'_> {
    /// The question.
    pub(super) fn request(&self) -> Result<Request<'_>, Bad> {
        let hits = self.hits_addend.as_ref().map(|hits| hits.whole("hitsAddend")).transpose()?;
        let hits = u32::try_from(hits.unwrap_or(0));
        let hits = hits.map_err(|_| Bad::new("hitsAddend does not fit into 32 bits"))?;
        let descriptors = self.descriptors.iter().flat_map(|all| &all.0);
        let request = Request {
            domain: self.domain.as_deref().unwrap_or_default(),
            descriptors: descriptors.map(|it| it.0.descriptor(hits)).collect::<Result<_, _>>()?,
        };
        request.checked()
    }
}

impl JsonDescriptor<'_> {
    fn descriptor(&self, hits_of_request: u32) -> Result<Descriptor<'_>, Bad> {
        let own = self.hits_addend.as_ref().map(|hits| hits.whole("hitsAddend")).transpose()?;
        let entries = self.entries.iter().flat_map(|all| &all.0).map(|it| it.0.entry()).collect();
        Ok(Descriptor {
            entries,
            limit: self.limit.as_ref().map(|it| it.0.own_limit()).transpose()?,
            hits: Hits::from_addend(own, self.is_negative_hits.unwrap_or(false), hits_of_request)?,
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
        let requests = self.requests_per_unit.as_ref().map(|it| it.whole("requestsPerUnit"));
        let requests_per_unit = u32::try_from(requests.transpose()?.unwrap_or(0))
            .map_err(|_| Bad::new("requestsPerUnit does not fit into 32 bits"))?;
        let Some(Scalar(unit)) = &self.unit else {
            return Err(Bad::new("the limit of a descriptor has no unit"));
        };
        let known = unit.parse().map_or_else(|_| Unit::named(unit), Unit::numbered);
        let unit = known.ok_or_else(|| {
            Bad::new(format!("unit: `{unit}` is none: expected a name like SECOND or DAY"))
        })?;
        Ok(OwnLimit { requests_per_unit, unit })
    }
}

impl Scalar {
    /// A whole number, which may be spelt `1.0` or `1e3`.
    fn whole(&self, field: &str) -> Result<u64, Bad> {
        let Self(text) = self;
        let spelt_out = || text.parse::<f64>().ok()?.to_string().parse().ok();
        let wrong = || Bad::new(format!("{field}: `{text}` is no whole number from 0"));
        text.parse().ok().or_else(spelt_out).ok_or_else(wrong)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string")
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
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
    use tidegate_testkit::fuzz::{self, Grammar};

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
                let Object(json): Object<JsonRequest<'_>> = serde_json::from_slice(&body).ok()?;
                json.request().ok().map(|request| request.descriptors.len())
            });
            prop_assert!(read.is_none_or(|count| (1..=DESCRIPTORS_MAX).contains(&count)));
        }
    }
}
