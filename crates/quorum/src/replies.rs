//! What servers reply to scripts.

use redis::Value as Wire;
use tidegate::{StoreError, StoreErrorKind, Timestamp};

use crate::ballot::Ballot;
use crate::rounds::Accepted;
use crate::standing::Standing;
use crate::value::Value;

/// The reply of one server to one call.
#[derive(Debug)]
pub(crate) struct ServerReply<R> {
    /// By its own clock.
    pub(crate) now: Timestamp,
    pub(crate) standing: Standing,
    /// In the order of the items; none from a server without a marker.
    pub(crate) items: Vec<R>,
}

/// What it says to a ballot for one item.
#[derive(Debug)]
pub(crate) enum Prepared {
    Promised(Option<Accepted<Vec<u8>>>),
    /// It has promised this one to another writer.
    Refused(Ballot),
    /// The key holds what tidegate did not write.
    Foreign,
    Failed(StoreError),
}

/// Whether it has accepted a value for one item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AcceptReply {
    Accepted,
    Refused,
}

impl<R> ServerReply<R> {
    pub(crate) fn read(
        reply: &Wire,
        count: usize,
        item: impl Fn(&[Wire]) -> Option<R>,
    ) -> Result<Self, StoreError> {
        let (now, standing, rest) = head(reply)?;
        if matches!(standing, Standing::Unmarked(_)) {
            return Ok(Self { now, standing, items: vec![] });
        }
        let items = rest.iter().map(|part| match part {
            Wire::Array(fields) => item(fields),
            _ => None,
        });
        let items = items.collect::<Option<Vec<R>>>().ok_or_else(malformed)?;
        if items.len() == count { Ok(Self { now, standing, items }) } else { Err(malformed()) }
    }
}

/// The server's time and standing, with which every reply begins, and the rest.
pub(crate) fn head(reply: &Wire) -> Result<(Timestamp, Standing, &[Wire]), StoreError> {
    let Wire::Array(parts) = reply else { return Err(malformed()) };
    let [now, marker, rest @ ..] = parts.as_slice() else { return Err(malformed()) };
    let now = Timestamp::from_micros(number(now).ok_or_else(malformed)?);
    let marker = text(marker).ok_or_else(malformed)?;
    if marker.is_empty() {
        let note = rest.first().and_then(text).ok_or_else(malformed)?;
        return Ok((now, Standing::Unmarked(note.to_vec()), rest));
    }
    Ok((now, Standing::from_marker(marker)?, rest))
}

/// One item of a reply to `prepare`.
pub(crate) fn prepared(fields: &[Wire]) -> Option<Prepared> {
    let (kind, rest) = fields.split_first()?;
    Some(match (text(kind)?, rest) {
        (b"p", [ballot, value]) => accepted(text(ballot)?, text(value)?),
        (b"r", [ballot]) => match Ballot::from_digits(text(ballot)?) {
            Some(ballot) => Prepared::Refused(ballot),
            None => Prepared::Foreign,
        },
        (b"f", [error]) => match denied(text(error)?) {
            Some(denied) => Prepared::Failed(denied),
            None => Prepared::Foreign,
        },
        (b"e", [error]) => {
            let error = text(error)?;
            let full = || {
                let why = String::from_utf8_lossy(error).into_owned();
                StoreError::new(StoreErrorKind::OutOfMemory, why)
            };
            Prepared::Failed(denied(error).unwrap_or_else(full))
        }
        _ => return None,
    })
}

/// The error of a command that the user may not run, or not on this key: in a script, versions say it differently.
fn denied(error: &[u8]) -> Option<StoreError> {
    let why = String::from_utf8_lossy(error);
    let is_denied = why.starts_with("NOPERM")
        || ["permissions", "user executing the script can't"].iter().any(|it| why.contains(it));
    is_denied.then(|| StoreError::new(StoreErrorKind::Denied, why.into_owned()))
}

fn accepted(ballot: &[u8], value: &[u8]) -> Prepared {
    if ballot.is_empty() && value.is_empty() {
        return Prepared::Promised(None);
    }
    match Ballot::from_digits(ballot).zip(Value::from_bytes(value)) {
        Some(accepted) => Prepared::Promised(Some(accepted)),
        None => Prepared::Foreign,
    }
}

/// One item of a reply to `accept`.
pub(crate) fn accept_reply(fields: &[Wire]) -> Option<AcceptReply> {
    match text(fields.first()?)? {
        b"a" => Some(AcceptReply::Accepted),
        b"r" | b"f" | b"e" => Some(AcceptReply::Refused),
        _ => None,
    }
}

fn text(part: &Wire) -> Option<&[u8]> {
    match part {
        Wire::BulkString(bytes) => Some(bytes),
        Wire::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

fn number(part: &Wire) -> Option<u64> {
    std::str::from_utf8(text(part)?).ok()?.parse().ok()
}

fn malformed() -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, "the reply to a script makes no sense")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(bytes: &[u8]) -> Wire {
        Wire::BulkString(bytes.to_vec())
    }

    #[test]
    fn replies_of_strangers_are_errors_and_values_of_strangers_are_foreign() {
        let read = |parts: Vec<Wire>| ServerReply::read(&Wire::Array(parts), 1, prepared);
        let item = |fields: &[&[u8]]| Wire::Array(fields.iter().map(|it| bulk(it)).collect());
        let ballot = Ballot { counter: 1, writer: 2 }.digits();
        let good = [bulk(b"5"), bulk(b"n:1")];
        for last in
            [bulk(b"p"), item(&[]), item(&[b"p"]), item(&[b"x", b""]), Wire::Nil, Wire::Int(1)]
        {
            let parts = good.iter().cloned().chain([last]).collect();
            assert_eq!(read(parts).unwrap_err().kind(), StoreErrorKind::Protocol);
        }
        assert!(read(good.to_vec()).is_err(), "an item is missing");
        assert!(read(vec![bulk(b"5"), bulk(b"hello"), item(&[b"f"])]).is_err());
        assert!(ServerReply::read(&Wire::Okay, 0, prepared).is_err());
        for fields in [
            &[&b"p"[..], ballot.as_bytes(), b"garbage"][..],
            &[b"p", b"no ballot", b""],
            &[b"p", b"", b"value without ballot"],
            &[b"r", b"no ballot"],
            &[b"f", b"WRONGTYPE"],
        ] {
            let parts = good.iter().cloned().chain([item(fields)]).collect();
            assert!(matches!(read(parts).unwrap().items[0], Prepared::Foreign), "{fields:?}");
        }
    }
}
