//! Which servers count: not one that has lost what it knew, until that no longer matters.

use std::time::Duration;

use tidegate::driver::StoreServerState;
use tidegate::{StoreError, StoreErrorKind, Timestamp};

/// What a server knows of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It has been in the set since that was formed.
    Member,
    /// It was met without a marker at this time of its own clock: what it knew before is lost.
    LostAt(Timestamp),
    /// It has no marker, and stores nothing yet. The note that says when it was met, and by whom.
    Unmarked(Vec<u8>),
}

impl Standing {
    pub(crate) fn from_marker(marker: &[u8]) -> Result<Self, StoreError> {
        let text = std::str::from_utf8(marker).ok();
        let time = |digits: &str| digits.parse().ok().map(Timestamp::from_micros);
        let standing = text.and_then(|text| text.split_once(':')).and_then(|it| match it {
            ("n", digits) => time(digits).map(|_| Self::Member),
            ("r", digits) => time(digits).map(Self::LostAt),
            _ => None,
        });
        let foreign = || StoreError::new(StoreErrorKind::WrongType, "its marker is not tidegate's");
        standing.ok_or_else(foreign)
    }

    /// From when on it counts for what matters for `life_max` at most: from always, from then on, or not yet known.
    pub(crate) fn counts_from(&self, life_max: Duration) -> Option<Timestamp> {
        match self {
            Self::Member => Some(Timestamp::EPOCH),
            Self::LostAt(at) => Some(*at + life_max),
            Self::Unmarked(_) => None,
        }
    }

    /// As others are told, at this time of its own clock.
    pub(crate) fn state(&self, now: Timestamp) -> StoreServerState {
        let ago = match self {
            Self::Member => return StoreServerState::Serving,
            Self::LostAt(at) => now.as_micros().saturating_sub(at.as_micros()),
            Self::Unmarked(_) => 0,
        };
        StoreServerState::Forgot { ago: Duration::from_micros(ago) }
    }

    /// Whether it counts at this time of its own clock.
    pub(crate) fn counts(&self, now: Timestamp, life_max: Duration) -> bool {
        self.counts_from(life_max).is_some_and(|from| from <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_has_lost_what_it_knew_counts_when_that_matters_no_more() {
        let at = |seconds| Timestamp::from_micros(seconds * 1_000_000);
        let standing = Standing::from_marker(b"r:100000000").unwrap();
        let minute = Duration::from_mins(1);
        assert!(!standing.counts(at(159), minute) && standing.counts(at(160), minute));
        assert!(standing.counts(at(131), Duration::from_secs(31)), "sooner for a shorter limit");
        assert!(Standing::from_marker(b"n:5").unwrap().counts(at(0), Duration::MAX));
        assert!(!Standing::Unmarked(vec![]).counts(at(u64::from(u32::MAX)), Duration::ZERO));
        for marker in [&b""[..], b"r", b"r:", b"r:x", b"x:1", b"n:-1", b"\xff"] {
            assert!(Standing::from_marker(marker).is_err(), "{marker:?}");
        }
    }
}
