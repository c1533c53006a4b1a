//! Ballots: which attempt to change an item comes after which.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use tidegate::Timestamp;

/// An attempt to change an item. No two are equal: a writer uses a counter once, and no other writer has its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Ballot {
    pub(crate) counter: u64,
    pub(crate) writer: u64,
}

/// Digits of each part: as many as a `u64` can have.
const DIGITS: usize = 20;

/// A higher counter was written by nobody here: counters start from the time in microseconds, which is below 2^53. To follow
/// it would leave no room for the next ones.
const COUNTER_MAX: u64 = 1 << 62;

impl Ballot {
    /// As scripts compare it: as text of one length, since numbers of Lua are exact up to 2^53 only, and of digits, since
    /// their order is the same in every locale.
    pub(crate) fn digits(self) -> String {
        let Self { counter, writer } = self;
        format!("{counter:0DIGITS$}{writer:0DIGITS$}")
    }

    /// `None` for what no writer has written.
    pub(crate) fn from_digits(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        if text.len() != 2 * DIGITS || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (counter, writer) = text.split_at(DIGITS);
        let (counter, writer) = (counter.parse().ok()?, writer.parse().ok()?);
        (counter <= COUNTER_MAX).then_some(Self { counter, writer })
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.counter) << 64 | u128::from(self.writer)).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let [counter, writer] =
            [64, 0].map(|shift| (u128::from_be_bytes(bytes) >> shift) & u128::from(u64::MAX));
        let part = |bits: u128| u64::try_from(bits).unwrap_or(u64::MAX);
        Self { counter: part(counter), writer: part(writer) }
    }
}

impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.counter, self.writer)
    }
}

/// Makes the ballots of one writer.
#[derive(Debug)]
pub(crate) struct Ballots {
    last: AtomicU64,
    writer: u64,
}

impl Default for Ballots {
    fn default() -> Self {
        Self { last: AtomicU64::new(0), writer: RandomState::new().hash_one(0) }
    }
}

impl Ballots {
    /// A ballot above all that this writer has made or seen. It starts from the time, so that whoever comes later is mostly
    /// ahead at the first attempt; a clock that is wrong costs attempts, and nothing else.
    pub(crate) fn next(&self, now: Timestamp) -> Ballot {
        let next = |last: u64| now.as_micros().max(last.saturating_add(1));
        let last = self.last.fetch_update(Relaxed, Relaxed, |last| Some(next(last)));
        Ballot { counter: next(last.unwrap_or_else(|last| last)), writer: self.writer }
    }

    /// A server knows of this one: the next is to be above it.
    pub(crate) fn seen(&self, ballot: Ballot) {
        self.last.fetch_max(ballot.counter, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_keep_the_order_beyond_what_lua_counts_exactly() {
        let ballots = [(0, 7), (9, u64::MAX), (10, 0), (1 << 53, 1), ((1 << 53) + 1, 0)];
        let ballots = ballots.map(|(counter, writer)| Ballot { counter, writer });
        for pair in ballots.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].digits() < pair[1].digits(), "{pair:?}");
        }
        for ballot in ballots {
            assert_eq!(Ballot::from_digits(ballot.digits().as_bytes()), Some(ballot));
            assert_eq!(Ballot::from_bytes(ballot.to_bytes()), ballot);
        }
    }

    #[test]
    fn what_nobody_wrote_is_no_ballot() {
        let over = Ballot { counter: COUNTER_MAX + 1, writer: 0 }.digits();
        let sign = format!("+{}", &Ballot::default().digits()[1..]);
        for text in ["", "1", over.as_str(), sign.as_str(), &"9".repeat(40), &"x".repeat(40)] {
            assert_eq!(Ballot::from_digits(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_ballot_is_above_those_before_and_those_seen() {
        let (ballots, now) = (Ballots::default(), Timestamp::from_micros(1_000));
        let first = ballots.next(now);
        let second = ballots.next(now);
        ballots.seen(Ballot { counter: 5_000, writer: 1 });
        let third = ballots.next(now);
        assert!(first < second && second < third && third.counter == 5_001, "{third:?}");
        assert!(ballots.next(Timestamp::EPOCH) > third, "the clock stepped back");
    }
}
