//! Decodes `envoy.service.ratelimit.v3.RateLimitRequest` within bounds. Unknown fields are skipped.

use super::super::request::{
    BadRequest, DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Hits, Request, RequestLimit,
};
use super::fields::Fields;
use tidegate_config::envoy::{Entry, Unit};

pub(in super::super) fn decode(message: &[u8]) -> Result<Request<'_>, BadRequest> {
    let mut request = Request::default();
    let mut hits_addend = 0;
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => request.domain = value.text("domain")?,
            2 if request.descriptors.len() == DESCRIPTORS_MAX => {
                return Err(BadRequest::new(format!("more than {DESCRIPTORS_MAX} descriptors")));
            }
            // Its hits depend on `hits_addend`, which may come later: decoded again below.
            2 => request.descriptors.push(descriptor(value.bytes("descriptors")?, 0)?),
            3 => hits_addend = value.number_32("hits_addend")?,
            _ => {}
        }
    }
    if hits_addend > 1 {
        request.descriptors.clear();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == 2 {
                let descriptor = descriptor(value.bytes("descriptors")?, hits_addend)?;
                request.descriptors.push(descriptor);
            }
        }
    }
    request.checked()
}

fn descriptor(message: &[u8], hits_of_request: u32) -> Result<Descriptor<'_>, BadRequest> {
    let mut read = Descriptor::default();
    let (mut hits, mut is_negative) = (None, false);
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 if read.entries.len() == ENTRIES_MAX => {
                return Err(BadRequest::new(format!(
                    "more than {ENTRIES_MAX} entries of a descriptor"
                )));
            }
            1 => read.entries.push(entry(value.bytes("entries")?)?),
            2 => read.limit = Some(request_limit(value.bytes("limit")?)?),
            3 => hits = Some(wrapped(value.bytes("hits_addend")?)?),
            4 => is_negative = value.number("is_negative_hits")? != 0,
            _ => {}
        }
    }
    read.hits = Hits::from_addend(hits, is_negative, hits_of_request)?;
    Ok(read)
}

fn entry(message: &[u8]) -> Result<Entry<'_>, BadRequest> {
    let mut entry = Entry::default();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => entry.key = value.text("key")?,
            2 => entry.value = value.text("value")?,
            _ => {}
        }
    }
    Ok(entry)
}

fn request_limit(message: &[u8]) -> Result<RequestLimit, BadRequest> {
    let (mut requests_per_unit, mut unit) = (0, 0);
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => requests_per_unit = value.number_32("requests_per_unit")?,
            2 => unit = value.number("unit")?,
            _ => {}
        }
    }
    let unit = Unit::numbered(unit)
        .ok_or_else(|| BadRequest::new(format!("the limit of a descriptor has no unit: {unit}")))?;
    Ok(RequestLimit { requests_per_unit, unit })
}

/// A `google.protobuf.UInt64Value`.
fn wrapped(message: &[u8]) -> Result<u64, BadRequest> {
    let mut wrapped = 0;
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            wrapped = value.number("hits_addend")?;
        }
    }
    Ok(wrapped)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    /// As encoded by Envoy's own API classes: two descriptors, one with its own limit and hits.
    const FROM_ENVOY: &[u8] = b"\x0a\x04edge\
        \x12\x1d\x0a\x1b\x0a\x0eremote_address\x12\x09192.0.2.1\
        \x12\x1b\x0a\x0d\x0a\x04tier\x12\x05basic\x12\x04\x08\x2a\x10\x03\x1a\x04\x08\x80\x94\x23\x18\x03";

    fn bad(message: &[u8]) -> String {
        decode(message).map(|request| format!("{request:?}")).unwrap_err().0
    }

    #[test]
    fn a_request_from_envoy_is_decoded() {
        let request = decode(FROM_ENVOY).unwrap();
        assert_eq!(request.domain, "edge");
        let [address, tier] = &request.descriptors[..] else { panic!("{request:?}") };
        assert_eq!(address.entries[0], Entry { key: "remote_address", value: "192.0.2.1" });
        assert_eq!((address.limit, address.hits), (None, Hits::Spend(3)));
        assert_eq!(tier.entries[0], Entry { key: "tier", value: "basic" });
        assert_eq!(tier.limit, Some(RequestLimit { requests_per_unit: 42, unit: Unit::Hour }));
        assert_eq!(tier.hits, Hits::Spend(576_000));
    }

    #[test]
    fn every_truncation_is_an_error_or_a_shorter_request() {
        for length in 0..FROM_ENVOY.len() {
            match decode(&FROM_ENVOY[..length]) {
                Ok(request) => assert_eq!(request.domain, "edge"),
                Err(BadRequest(why)) => {
                    assert!(why.contains("early") || why.contains("empty"), "{why}");
                }
            }
        }
    }

    #[test]
    fn hits_come_from_the_descriptor_or_the_request_or_are_one() {
        let entry = b"\x0a\x06\x0a\x01k\x12\x01v";
        for (of_descriptor, of_request, expected) in [
            (&b""[..], &b""[..], Hits::Spend(1)),
            (b"", b"\x18\x00", Hits::Spend(1)),
            (b"", b"\x18\x05", Hits::Spend(5)),
            (b"\x1a\x00", b"\x18\x05", Hits::Peek),
            (b"\x1a\x02\x08\x07", b"\x18\x05", Hits::Spend(7)),
            (b"\x1a\x02\x08\x07\x20\x01", b"", Hits::Refund(7)),
        ] {
            let descriptor = [entry, of_descriptor].concat();
            let length = [0x12, u8::try_from(descriptor.len()).unwrap()];
            // `hits_addend` of the request may come before the descriptors, or after them.
            for message in [
                [b"\x0a\x01d", &length[..], &descriptor, of_request].concat(),
                [b"\x0a\x01d", of_request, &length, &descriptor].concat(),
            ] {
                assert_eq!(decode(&message).unwrap().descriptors[0].hits, expected, "{message:?}");
            }
        }
    }

    #[test]
    fn invalid_messages_are_explained() {
        for (message, why) in [
            (&b""[..], "domain must not be empty"),
            (b"\x0a\x01d", "descriptor list must not be empty"),
            (b"\x12\x00", "domain must not be empty"),
            (b"\x0a\x02\xff\xff\x12\x00", "domain is not UTF-8"),
            (b"\x0a\x7fd", "ends early"),
            (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01d", "ends early"),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "more than 64 bits"),
            (b"\x0b", "wire type 3"),
            (b"\x00\x00", "field number 0"),
            (b"\x08\x01", "domain has another wire type"),
            (b"\x0a\x01d\x12\x04\x12\x02\x08\x01", "has no unit: 0"),
            (
                b"\x0a\x01d\x12\x0d\x1a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                "hits_addend 18446744073709551615 is above",
            ),
        ] {
            let error = bad(message);
            assert!(error.contains(why), "{error} instead of {why}");
        }
        assert!(
            bad(&[b"\x0a\x01d", &b"\x12\x00".repeat(65)[..]].concat()).contains("more than 64")
        );
        let entries = [&b"\x0a\x01d\x12\x82\x01"[..], &b"\x0a\x00".repeat(65)].concat();
        assert!(bad(&entries).contains("more than 64 entries"));
    }

    #[test]
    fn fields_of_later_versions_are_skipped() {
        let later = b"\x0a\x01d\x12\x00\xa0\x06\x01\xa1\x0612345678\xa2\x06\x02xy\xa5\x061234";
        assert_eq!(decode(later).unwrap().descriptors.len(), 1);
    }

    /// The same messages for prost, as a reference decoder.
    #[derive(Clone, PartialEq, prost::Message)]
    struct ProstRequest {
        #[prost(string, tag = "1")]
        domain: String,
        #[prost(message, repeated, tag = "2")]
        descriptors: Vec<ProstDescriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct ProstDescriptor {
        #[prost(message, repeated, tag = "1")]
        entries: Vec<ProstEntry>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct ProstEntry {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(string, tag = "2")]
        value: String,
    }

    /// Fields, complete and in parts, with lengths that are right, too long, and ten bytes long.
    const GRAMMAR: Grammar = Grammar {
        whole: &[
            "\x0a\x04edge\x12\x08\x0a\x06\x0a\x01k\x12\x01v\x18\x05",
            "\x0a\x01d\x12\x0e\x0a\x06\x0a\x01k\x12\x01v\x12\x04\x08\x2a\x10\x03\x12\x08\x0a\x06\x0a\x01a\x12\x01b",
        ],
        words: &[
            "\x0a\x04edge",
            "\x0a\x01x",
            "\x12\x0a\x0a\x08\x0a\x01k\x12\x03abc",
            "\x12\x08\x0a\x06\x0a\x01k\x12\x01v",
            "\x12\x00",
            "\x18\x05",
            "\x18\x00",
            "\x0a",
            "\x12",
            "\x1a",
            "\x12\x7f",
            "\x08\x01",
            "\x1d\x01\x02\x03\x04",
            "\x19",
            "\x0b",
            "\x0c",
            "\x1a\x02\x08\x07",
            "\x12\x04\x08\x2a\x10\x03",
            "\x7f",
            "\x00",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(20_000))]

        #[test]
        fn prost_decodes_the_same(message in fuzz::bytes_like(GRAMMAR)) {
            let Ok(request) = fuzz::held_to(200, &message, || decode(&message)) else { return Ok(()) };
            let expected = ProstRequest::decode(&*message).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(request.domain, expected.domain);
            let entries = |descriptor: &Descriptor<'_>| {
                let pair = |entry: &Entry<'_>| ProstEntry { key: entry.key.into(), value: entry.value.into() };
                ProstDescriptor { entries: descriptor.entries.iter().map(pair).collect() }
            };
            let ours: Vec<_> = request.descriptors.iter().map(entries).collect();
            prop_assert_eq!(ours, expected.descriptors);
        }
    }
}
