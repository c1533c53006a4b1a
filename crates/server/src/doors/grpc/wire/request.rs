//! `envoy.service.ratelimit.v3.RateLimitRequest`, read within bounds. Fields that we do not know are skipped.

use super::super::request::{
    Bad, DESCRIPTORS_MAX, Descriptor, ENTRIES_MAX, Hits, OwnLimit, Request,
};
use super::fields::Fields;
use tidegate_config::envoy::{Entry, Unit};

/// Reads a request.
pub(in super::super) fn decode(message: &[u8]) -> Result<Request<'_>, Bad> {
    let mut request = Request::default();
    let mut hits_addend = 0;
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => request.domain = value.text("domain")?,
            2 if request.descriptors.len() == DESCRIPTORS_MAX => {
                return Err(Bad::new(format!("more than {DESCRIPTORS_MAX} descriptors")));
            }
            // Its hits may depend on what comes after it: see below.
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

fn descriptor(message: &[u8], hits_of_request: u32) -> Result<Descriptor<'_>, Bad> {
    let mut read = Descriptor::default();
    let (mut hits, mut is_negative) = (None, false);
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 if read.entries.len() == ENTRIES_MAX => {
                return Err(Bad::new(format!("more than {ENTRIES_MAX} entries of a descriptor")));
            }
            1 => read.entries.push(entry(value.bytes("entries")?)?),
            2 => read.limit = Some(own_limit(value.bytes("limit")?)?),
            3 => hits = Some(wrapped(value.bytes("hits_addend")?)?),
            4 => is_negative = value.number("is_negative_hits")? != 0,
            _ => {}
        }
    }
    read.hits = Hits::from_addend(hits, is_negative, hits_of_request)?;
    Ok(read)
}

fn entry(message: &[u8]) -> Result<Entry<'_>, Bad> {
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

fn own_limit(message: &[u8]) -> Result<OwnLimit, Bad> {
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
        .ok_or_else(|| Bad::new(format!("the limit of a descriptor has no unit: {unit}")))?;
    Ok(OwnLimit { requests_per_unit, unit })
}

/// A `google.protobuf.UInt64Value`.
fn wrapped(message: &[u8]) -> Result<u64, Bad> {
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

    /// As the classes of Envoy's own API write it: two descriptors, one with a limit and hits of its own.
    const FROM_ENVOY: &[u8] = b"\x0a\x04edge\
        \x12\x1d\x0a\x1b\x0a\x0eremote_address\x12\x09192.0.2.1\
        \x12\x1b\x0a\x0d\x0a\x04tier\x12\x05basic\x12\x04\x08\x2a\x10\x03\x1a\x04\x08\x80\x94\x23\x18\x03";

    fn bad(message: &[u8]) -> String {
        decode(message).map(|request| format!("{request:?}")).unwrap_err().0
    }

    #[test]
    fn a_request_is_read_as_envoy_sends_it() {
        let request = decode(FROM_ENVOY).unwrap();
        assert_eq!(request.domain, "edge");
        let [address, tier] = &request.descriptors[..] else { panic!("{request:?}") };
        assert_eq!(address.entries[0], Entry { key: "remote_address", value: "192.0.2.1" });
        assert_eq!((address.limit, address.hits), (None, Hits::Spend(3)));
        assert_eq!(tier.entries[0], Entry { key: "tier", value: "basic" });
        assert_eq!(tier.limit, Some(OwnLimit { requests_per_unit: 42, unit: Unit::Hour }));
        assert_eq!(tier.hits, Hits::Spend(576_000));
    }

    #[test]
    fn every_truncation_is_an_error_or_a_shorter_request() {
        for length in 0..FROM_ENVOY.len() {
            match decode(&FROM_ENVOY[..length]) {
                Ok(request) => assert_eq!(request.domain, "edge"),
                Err(Bad(why)) => assert!(why.contains("early") || why.contains("empty"), "{why}"),
            }
        }
    }

    #[test]
    fn hits_are_the_descriptors_own_or_the_requests_or_one() {
        let entry = b"\x0a\x06\x0a\x01k\x12\x01v";
        for (of_descriptor, of_request, expected) in [
            (&b""[..], &b""[..], Hits::Spend(1)),
            (b"", b"\x18\x00", Hits::Spend(1)),
            (b"", b"\x18\x05", Hits::Spend(5)),
            (b"\x1a\x00", b"\x18\x05", Hits::Peek),
            (b"\x1a\x02\x08\x07", b"\x18\x05", Hits::Spend(7)),
            (b"\x1a\x02\x08\x07\x20\x01", b"", Hits::GiveBack(7)),
        ] {
            let descriptor = [entry, of_descriptor].concat();
            let length = [0x12, u8::try_from(descriptor.len()).unwrap()];
            // The request's own number may come before the descriptors, or after them.
            for message in [
                [b"\x0a\x01d", &length[..], &descriptor, of_request].concat(),
                [b"\x0a\x01d", of_request, &length, &descriptor].concat(),
            ] {
                assert_eq!(decode(&message).unwrap().descriptors[0].hits, expected, "{message:?}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_told() {
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
            let told = bad(message);
            assert!(told.contains(why), "{told} instead of {why}");
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

    /// The same messages, read by somebody else.
    #[derive(Clone, PartialEq, prost::Message)]
    struct TheirRequest {
        #[prost(string, tag = "1")]
        domain: String,
        #[prost(message, repeated, tag = "2")]
        descriptors: Vec<TheirDescriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct TheirDescriptor {
        #[prost(message, repeated, tag = "1")]
        entries: Vec<TheirEntry>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    struct TheirEntry {
        #[prost(string, tag = "1")]
        key: String,
        #[prost(string, tag = "2")]
        value: String,
    }

    /// Fields, whole and in parts, with lengths that are right, too long and of ten bytes.
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
        fn what_we_read_others_read_the_same(message in fuzz::bytes_like(GRAMMAR)) {
            let Ok(request) = fuzz::held_to(200, &message, || decode(&message)) else { return Ok(()) };
            let theirs = TheirRequest::decode(&*message).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(request.domain, theirs.domain);
            let entries = |descriptor: &Descriptor<'_>| {
                let pair = |entry: &Entry<'_>| TheirEntry { key: entry.key.into(), value: entry.value.into() };
                TheirDescriptor { entries: descriptor.entries.iter().map(pair).collect() }
            };
            let ours: Vec<_> = request.descriptors.iter().map(entries).collect();
            prop_assert_eq!(ours, theirs.descriptors);
        }
    }
}
