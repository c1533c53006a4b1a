//! Permits on paper, for those who cannot keep them in memory.

use std::fmt;
use std::str::FromStr;

use crate::store::Ask;

/// What a permit holds: the limits of its policy, each with the number of the place.
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
    places: Vec<(usize, u64)>,
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
    pub(super) const fn new(stands_in: bool, places: Vec<(usize, u64)>) -> Self {
        Self { stands_in, places }
    }

    pub(crate) const fn stands_in(&self) -> bool {
        self.stands_in
    }

    pub(crate) fn places(&self) -> &[(usize, u64)] {
        &self.places
    }
}

/// `p0.1f`: a letter for the store, then which limit and which place, each pair after a dash but the first.
impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.stands_in { "l" } else { "p" })?;
        for (count, (index, id)) in self.places.iter().enumerate() {
            let dash = if count == 0 { "" } else { "-" };
            write!(f, "{dash}{index}.{id:x}")?;
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
        let place = |text: &str| {
            let (index, id) = text.split_once('.')?;
            let index = index.parse().ok().filter(|index| *index < Ask::MAX_LIMITS)?;
            let plain = !id.starts_with('+');
            Some((index, u64::from_str_radix(id, 16).ok().filter(|_| plain)?))
        };
        let places = rest.split('-').filter(|_| !rest.is_empty()).take(Ask::MAX_LIMITS + 1);
        let places: Option<Vec<_>> = places.map(place).collect();
        let places = places.filter(|places| places.len() <= Ask::MAX_LIMITS);
        places.map(|places| Self { stands_in, places }).ok_or(BadPermitId)
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
        ] {
            assert_eq!(text.parse::<PermitId>(), Err(BadPermitId), "{text}");
        }
        assert!("p0.1-".repeat(1000).parse::<PermitId>().is_err());
    }

    #[test]
    fn what_was_written_is_read_the_same() {
        for places in [vec![], vec![(0, 0)], vec![(0, 31), (15, u64::MAX)]] {
            for stands_in in [true, false] {
                let id = PermitId::new(stands_in, places.clone());
                assert_eq!(id.to_string().parse(), Ok(id));
            }
        }
    }
}
