//! Permits on paper, for those who cannot keep them in memory.

use std::fmt;
use std::str::FromStr;

use tidegate_core::Concurrency;

use crate::store::StoreRequest;

/// What a permit holds: the limits of its policy, each with the permit's number and how many places it is for.
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
    stands_in: bool,
    places: Vec<Places>,
}

/// Places held under one limit of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Places {
    /// Which limit of the policy.
    pub(crate) index: usize,
    /// The permit's id.
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
    pub(super) const fn new(stands_in: bool, places: Vec<Places>) -> Self {
        Self { stands_in, places }
    }

    pub(crate) const fn stands_in(&self) -> bool {
        self.stands_in
    }

    pub(crate) fn places(&self) -> &[Places] {
        &self.places
    }
}

/// `p0.1f-1.2ax3`: a letter for the store, then which limit, which permit and, unless it is one, how many places, all
/// after a dash but the first.
impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.stands_in { "l" } else { "p" })?;
        for (count, Places { index, id, cost }) in self.places.iter().enumerate() {
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
        let (stands_in, rest) = match (text.strip_prefix('l'), text.strip_prefix('p')) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(BadPermitId),
        };
        let places =
            rest.split('-').filter(|_| !rest.is_empty()).take(StoreRequest::MAX_LIMITS + 1);
        let places: Option<Vec<_>> = places.map(Places::read).collect();
        let places = places.filter(|places| places.len() <= StoreRequest::MAX_LIMITS);
        places.map(|places| Self { stands_in, places }).ok_or(BadPermitId)
    }
}

impl Places {
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
        let place = |index, id, cost| Places { index, id, cost };
        let most = Concurrency::MAX_LIMIT;
        for (text, places) in [
            ("", vec![]),
            ("0.0", vec![place(0, 0, 1)]),
            ("0.1fx3", vec![place(0, 31, 3)]),
            ("0.1f-15.ffffffffffffffffx1000000", vec![place(0, 31, 1), place(15, u64::MAX, most)]),
        ] {
            for (letter, stands_in) in [("l", true), ("p", false)] {
                let id = PermitId::new(stands_in, places.clone());
                assert_eq!(id.to_string(), format!("{letter}{text}"));
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }
}
