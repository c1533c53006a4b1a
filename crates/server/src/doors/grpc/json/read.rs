//! Decodes a request in the JSON mapping of protobuf: field names in either case, numbers also as strings, `null` for
//! unset fields.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

use super::super::request::{
    BadRequest, DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Hits, Request, RequestLimit,
};
use crate::doors::shared::request::{AtMost, Element, Object};
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

/// A number or string, kept as text: protobuf accepts either. The field decides what it has to be.
struct Scalar(String);

impl Element for Object<JsonDescriptor<'_>> {}
impl Element for Object<JsonEntry<'_>> {}

impl JsonRequest<'_> {
    pub(super) fn request(&self) -> Result<Request<'_>, BadRequest> {
        let hits = self.hits_addend.as_ref().map(|hits| hits.integer("hitsAddend")).transpose()?;
        let hits = u32::try_from(hits.unwrap_or(0));
        let hits = hits.map_err(|_| BadRequest::new("hitsAddend does not fit into 32 bits"))?;
        let descriptors = self.descriptors.iter().flat_map(|all| &all.0);
        let request = Request {
            domain: self.domain.as_deref().unwrap_or_default(),
            descriptors: descriptors.map(|it| it.0.descriptor(hits)).collect::<Result<_, _>>()?,
        };
        request.checked()
    }
}

impl JsonDescriptor<'_> {
    fn descriptor(&self, hits_of_request: u32) -> Result<Descriptor<'_>, BadRequest> {
        let own = self.hits_addend.as_ref().map(|hits| hits.integer("hitsAddend")).transpose()?;
        let entries = self.entries.iter().flat_map(|all| &all.0).map(|it| it.0.entry()).collect();
        Ok(Descriptor {
            entries,
            limit: self.limit.as_ref().map(|it| it.0.request_limit()).transpose()?,
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
    fn request_limit(&self) -> Result<RequestLimit, BadRequest> {
        let requests = self.requests_per_unit.as_ref().map(|it| it.integer("requestsPerUnit"));
        let requests_per_unit = u32::try_from(requests.transpose()?.unwrap_or(0))
            .map_err(|_| BadRequest::new("requestsPerUnit does not fit into 32 bits"))?;
        let Some(Scalar(unit)) = &self.unit else {
            return Err(BadRequest::new("the limit of a descriptor has no unit"));
        };
        let known = unit.parse().map_or_else(|_| Unit::named(unit), Unit::numbered);
        let unit = known.ok_or_else(|| {
            BadRequest::new(format!(
                "unit: `{unit}` is not a unit: expected a name like SECOND or DAY"
            ))
        })?;
        Ok(RequestLimit { requests_per_unit, unit })
    }
}

impl Scalar {
    /// An integer, which may be written `1.0` or `1e3`.
    fn integer(&self, field: &str) -> Result<u64, BadRequest> {
        let Self(text) = self;
        let from_float = || text.parse::<f64>().ok()?.to_string().parse().ok();
        let error = || BadRequest::new(format!("{field}: `{text}` is not a whole number from 0"));
        text.parse().ok().or_else(from_float).ok_or_else(error)
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    /// Requests in the JSON mapping of protobuf, complete and in parts.
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
        fn any_body_is_a_request_or_an_error(body in fuzz::bytes_like(GRAMMAR)) {
            let read = fuzz::held_to(300, &body, || {
                let Object(json): Object<JsonRequest<'_>> = serde_json::from_slice(&body).ok()?;
                json.request().ok().map(|request| request.descriptors.len())
            });
            prop_assert!(read.is_none_or(|count| (1..=DESCRIPTORS_MAX).contains(&count)));
        }
    }
}
