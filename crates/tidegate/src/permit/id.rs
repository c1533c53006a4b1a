//! Permits as text, for callers that cannot keep them in memory.

use std::fmt;
use std::str::FromStr;

use tidegate_core::{Concurrency, EXACT_MAX};

use crate::store::StoreRequest;

/// What a permit holds: under each limit, by its name, the id that the store gave, and how many places. It names no
/// position, so that it stays good when limits are added, removed or reordered, and on every node.
///
/// ```
/// use tidegate::{Engine, PermitId};
///
/// let engine = Engine::builder().policy("export", "concurrency 1").build()?;
/// let permit = engine.acquire("export", "user-42").now()?.permit;
/// let id: PermitId = permit.map(|permit| permit.into_id()).unwrap();
/// assert_eq!(id.to_string().parse(), Ok(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermitId {
    pub(crate) holder: Holder,
    pub(crate) held: Vec<HeldPermits>,
}

/// Who knows the permits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The store, and so every node.
    Store,
    /// Only this node, which granted them while the store failed.
    Node(u64),
}

/// Permits held under one limit of a policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HeldPermits {
    /// The limit's name within its policy; empty for the only one.
    pub(crate) limit: String,
    /// The id that the store gave.
    pub(crate) id: u64,
    /// How many: a store finds the permit by both.
    pub(crate) cost: u64,
}

/// Text that no [`PermitId`] is written as.
///
/// ```
/// use tidegate::{BadPermitId, PermitId};
///
/// assert_eq!("user-42".parse::<PermitId>(), Err(BadPermitId));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadPermitId;

/// `p2.jobs.1f.pool.2ax3`: `p2`, or `l2` and the node that stood in for the store; then for each limit its name, the id
/// and, unless it is one, how many. Bytes of a name other than letters, digits, `-` and `_` are written as `~2e`.
impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.holder {
            Holder::Store => f.write_str("p2")?,
            Holder::Node(node) => write!(f, "l2.{node:x}")?,
        }
        for HeldPermits { limit, id, cost } in &self.held {
            f.write_str(".")?;
            for byte in limit.bytes() {
                if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
                    write!(f, "{}", char::from(byte))?;
                } else {
                    write!(f, "~{byte:02x}")?;
                }
            }
            write!(f, ".{id:x}")?;
            if *cost != 1 {
                write!(f, "x{cost}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for PermitId {
    type Err = BadPermitId;

    fn from_str(text: &str) -> Result<Self, BadPermitId> {
        // Each has one spelling only: `1F`, `01` or `+1` were never written.
        read(text).filter(|id| id.to_string() == text).ok_or(BadPermitId)
    }
}

fn read(text: &str) -> Option<PermitId> {
    let mut parts = text.split('.');
    let holder = match parts.next()? {
        "p2" => Holder::Store,
        "l2" => Holder::Node(u64::from_str_radix(parts.next()?, 16).ok()?),
        _ => return None,
    };
    let mut held = Vec::new();
    while let Some(name) = parts.next() {
        if held.len() == StoreRequest::MAX_LIMITS {
            return None;
        }
        held.push(HeldPermits::read(name, parts.next()?)?);
    }
    Some(PermitId { holder, held })
}

impl HeldPermits {
    fn read(name: &str, permit: &str) -> Option<Self> {
        let (id, cost) = permit.split_once('x').unwrap_or((permit, "1"));
        let id = u64::from_str_radix(id, 16).ok().filter(|id| *id <= EXACT_MAX)?;
        let cost = cost.parse().ok().filter(|cost| (1..=Concurrency::MAX_LIMIT).contains(cost))?;
        Some(Self { limit: unescape(name)?, id, cost })
    }
}

fn unescape(name: &str) -> Option<String> {
    let mut parts = name.split('~');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, plain) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend_from_slice(plain.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

impl fmt::Display for BadPermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no permit is written so: expected what an acquire has answered")
    }
}

impl std::error::Error for BadPermitId {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_written_is_not_read() {
        for text in [
            "",
            "p",
            "l",
            "p0.1",
            "p0.1f-1.2ax3",
            "p2.",
            "p2.jobs",
            "p2.jobs.",
            "p2.jobs.g",
            "p2.jobs.+1",
            "p2.jobs.-1",
            "p2.jobs.01",
            "p2.jobs.1F",
            "p2.jobs.1.",
            "p2.jobs.20000000000001",
            "p2.jobs.ffffffffffffffff",
            "p2.jobs.1ffffffffffffffff",
            "p2.jobs.1x",
            "p2.jobs.1x0",
            "p2.jobs.1x1",
            "p2.jobs.1x02",
            "p2.jobs.1x+2",
            "p2.jobs.1x2x2",
            "p2.jobs.1x1000001",
            "p2.jo bs.1",
            "p2.j\u{f6}bs.1",
            "p2.jobs~.1",
            "p2.jobs~2.1",
            "p2.jobs~2E.1",
            "p2.jobs~61.1",
            "p2.jobs~ff.1",
            "l2",
            "l2.",
            "l2.jobs.1",
            "l2.1ffffffffffffffff",
            "h1.jobs.1",
        ] {
            assert_eq!(text.parse::<PermitId>(), Err(BadPermitId), "{text}");
        }
        assert!(format!("p2{}", ".jobs.1".repeat(17)).parse::<PermitId>().is_err());
        assert!(format!("p2{}", ".jobs.1".repeat(16)).parse::<PermitId>().is_ok());
        assert!("p2.jobs.1".repeat(10_000).parse::<PermitId>().is_err());
    }

    #[test]
    fn what_was_written_is_read_the_same() {
        let held = |limit: &str, id, cost| HeldPermits { limit: limit.to_owned(), id, cost };
        let most = Concurrency::MAX_LIMIT;
        for (text, held) in [
            ("", vec![]),
            ("..0", vec![held("", 0, 1)]),
            (".jobs.1fx3", vec![held("jobs", 31, 3)]),
            (".Jobs_2-a.1", vec![held("Jobs_2-a", 1, 1)]),
            (".a~2eb~7e~20~c3~b6.1", vec![held("a.b~ \u{f6}", 1, 1)]),
            (
                ".jobs.1f.pool.20000000000000x1000000",
                vec![held("jobs", 31, 1), held("pool", EXACT_MAX, most)],
            ),
        ] {
            for (prefix, holder) in [
                ("p2", Holder::Store),
                ("l2.0", Holder::Node(0)),
                ("l2.ffffffffffffffff", Holder::Node(u64::MAX)),
            ] {
                let id = PermitId { holder, held: held.clone() };
                assert_eq!(id.to_string(), format!("{prefix}{text}"));
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }
}
