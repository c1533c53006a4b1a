//! Permits as text, for callers that cannot keep them in memory.

use std::fmt;
use std::str::FromStr;

use tidegate_core::Concurrency;

use crate::store::StoreRequest;

/// What a permit holds: for each limit of its policy the id that the store gave, and how many permits.
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
    pub(crate) is_fallback: bool,
    pub(crate) held: Vec<HeldPermits>,
}

/// Permits held under one limit of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldPermits {
    /// Which limit of the policy.
    pub(crate) index: usize,
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

impl PermitId {
    pub(super) const fn new(is_fallback: bool, held: Vec<HeldPermits>) -> Self {
        Self { is_fallback, held }
    }
}

/// `p0.1f-1.2ax3`: `p` for the store or `l` for the local fallback; then, separated by dashes, the limit's index, the id
/// and, unless it is one, how many.
impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_fallback { "l" } else { "p" })?;
        for (count, HeldPermits { index, id, cost }) in self.held.iter().enumerate() {
            let dash = if count == 0 { "" } else { "-" };
            write!(f, "{dash}{index}.{id:x}")?;
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
        let (is_fallback, rest) = match (text.strip_prefix('l'), text.strip_prefix('p')) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(BadPermitId),
        };
        let parts = rest.split('-').filter(|_| !rest.is_empty()).take(StoreRequest::MAX_LIMITS + 1);
        let held: Option<Vec<_>> = parts.map(HeldPermits::read).collect();
        let held = held.filter(|held| held.len() <= StoreRequest::MAX_LIMITS);
        held.map(|held| Self { is_fallback, held }).ok_or(BadPermitId)
    }
}

impl HeldPermits {
    fn read(text: &str) -> Option<Self> {
        if text.contains('+') {
            return None;
        }
        let (index, permit) = text.split_once('.')?;
        let (id, cost) = permit.split_once('x').unwrap_or((permit, "1"));
        let index = index.parse().ok().filter(|index| *index < StoreRequest::MAX_LIMITS)?;
        let cost = cost.parse().ok().filter(|cost| (1..=Concurrency::MAX_LIMIT).contains(cost))?;
        Some(Self { index, id: u64::from_str_radix(id, 16).ok()?, cost })
    }
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
            "p0",
            "p0.",
            "p.1",
            "q0.1",
            "p0.1-",
            "p-0.1",
            "p0.+1",
            "p16.1",
            "p0.1ffffffffffffffff",
            "p0.1x",
            "p0.x2",
            "p0.1x0",
            "p0.1x+2",
            "p0.1x2x2",
            "p0.1x1000001",
        ] {
            assert_eq!(text.parse::<PermitId>(), Err(BadPermitId), "{text}");
        }
        assert!("p0.1-".repeat(1000).parse::<PermitId>().is_err());
    }

    #[test]
    fn what_was_written_is_read_the_same() {
        let held = |index, id, cost| HeldPermits { index, id, cost };
        let most = Concurrency::MAX_LIMIT;
        for (text, held) in [
            ("", vec![]),
            ("0.0", vec![held(0, 0, 1)]),
            ("0.1fx3", vec![held(0, 31, 3)]),
            ("0.1f-15.ffffffffffffffffx1000000", vec![held(0, 31, 1), held(15, u64::MAX, most)]),
        ] {
            for (letter, is_fallback) in [("l", true), ("p", false)] {
                let id = PermitId::new(is_fallback, held.clone());
                assert_eq!(id.to_string(), format!("{letter}{text}"));
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }
}
