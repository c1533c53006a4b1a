//! How an item looks in the table.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use tidegate::{Clock, SystemClock};
use tidegate_cas::{Stored, Update};

/// The partition key: text.
pub(crate) const KEY: &str = "key";
/// What is different after every change: 16 bytes.
pub(crate) const VERSION: &str = "version";
/// The bytes of the states.
pub(crate) const STATE: &str = "state";
/// When DynamoDB may remove it, in seconds since 1970. It does so hours later: until then the item says what is true,
/// that its limits are fully replenished.
pub(crate) const EXPIRES: &str = "expires";

/// The most bytes of a state: DynamoDB's 400 KB, less the key and the other attributes.
pub(crate) const ITEM_BYTES_MAX: usize = (400 << 10) - 1_024;

/// What has to be kept for longer than this is kept for ever.
const LIFE_MAX: Duration = Duration::from_hours(24 * 365 * 100);

/// Attributes by name.
pub(crate) type Attributes = HashMap<String, AttributeValue>;

/// A number that no other change of any item has.
pub(crate) type Version = [u8; 16];

pub(crate) fn key_of(name: &str) -> Attributes {
    HashMap::from([(KEY.to_owned(), AttributeValue::S(name.to_owned()))])
}

pub(crate) fn binary(bytes: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// The item that an update makes.
pub(crate) fn attributes(update: &Update<Version>, version: &Version) -> Attributes {
    let mut attributes = key_of(&update.key);
    attributes.insert(VERSION.to_owned(), binary(version));
    attributes.insert(STATE.to_owned(), binary(&update.bytes));
    if update.life < LIFE_MAX {
        let now_s = SystemClock.now().as_micros() / 1_000_000;
        let expires_s = now_s + update.life.as_secs() + 1;
        attributes.insert(EXPIRES.to_owned(), AttributeValue::N(expires_s.to_string()));
    }
    attributes
}

/// The version of an item; `None` if tidegate did not write it.
pub(crate) fn version_of(attributes: &Attributes) -> Option<Version> {
    attributes.get(VERSION)?.as_b().ok()?.as_ref().try_into().ok()
}

pub(crate) fn name_of(attributes: &Attributes) -> Option<&str> {
    attributes.get(KEY)?.as_s().ok().map(String::as_str)
}

/// What is kept. An item that tidegate did not write gets bytes that nothing reads, so that the checks on it fail, and no
/// others; and a version that nothing has, so that it is not overwritten.
pub(crate) fn stored(mut attributes: Attributes) -> Stored<Version> {
    let bytes = attributes.remove(STATE).and_then(|state| match state {
        AttributeValue::B(bytes) if !bytes.as_ref().is_empty() => Some(bytes.into_inner()),
        _ => None,
    });
    match (version_of(&attributes), bytes) {
        (Some(version), Some(bytes)) => Stored { version: Some(version), bytes },
        _ => Stored { version: Some([0; 16]), bytes: vec![u8::MAX] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(life: Duration) -> Update<Version> {
        Update { key: "tg:p:api:1:k".into(), expected: None, bytes: vec![1, 2, 3], life }
    }

    #[test]
    fn what_was_written_is_read_the_same() {
        let attributes = attributes(&update(Duration::from_mins(1)), &[7; 16]);
        assert_eq!(name_of(&attributes), Some("tg:p:api:1:k"));
        assert_eq!(version_of(&attributes), Some([7; 16]));
        let stored = stored(attributes);
        assert_eq!((stored.version, stored.bytes), (Some([7; 16]), vec![1, 2, 3]));
    }

    #[test]
    fn an_item_expires_after_its_life_or_never() {
        let expires = |life| {
            let mut attributes = attributes(&update(life), &[7; 16]);
            attributes.remove(EXPIRES).map(|it| it.as_n().unwrap().parse::<u64>().unwrap())
        };
        let now_s = SystemClock.now().as_micros() / 1_000_000;
        let minute = expires(Duration::from_mins(1)).unwrap();
        assert!((now_s + 60..now_s + 70).contains(&minute), "{minute}");
        assert_eq!(expires(Duration::MAX), None);
    }

    #[test]
    fn what_tidegate_did_not_write_is_not_read_as_nothing() {
        for foreign in [key_of("k"), HashMap::from([(VERSION.to_owned(), binary(&[1; 3]))])] {
            let stored = stored(foreign);
            assert_eq!((stored.version, stored.bytes), (Some([0; 16]), vec![u8::MAX]));
        }
    }
}
