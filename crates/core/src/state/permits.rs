//! The permits of a concurrency limit.

use super::State;

/// The permits that are held, and until when.
///
/// ```
/// use tidegate_core::{Limit, Permits, State, Timestamp};
///
/// let limit: Limit = "concurrency 5".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let _ = limit.take(&mut state, now, 1);
/// let _ = limit.take(&mut state, now, 3);
/// let places = |permits: &Permits| permits.held().iter().map(|permit| permit.cost).sum::<u64>();
/// assert!(matches!(&state, State::Permits(permits) if places(permits) == 4));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Permits {
    /// Sorted by the end of the lease.
    pub(super) held: Vec<Permit>,
    /// Above every id given so far, so that a late release frees nobody else's place.
    pub(crate) next_id: u64,
}

/// A number of places held until they are released or their lease ends.
///
/// ```
/// use tidegate_core::{Limit, Permit, State, Timestamp};
///
/// let limit: Limit = "concurrency 5 lease 30s".parse()?;
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// let granted_us = now.as_micros();
/// let (_, change) = limit.decide(&State::Empty, now, 2);
/// let expires_us = granted_us + 30_000_000;
/// // Ids start at the microsecond of the first grant.
/// assert_eq!(change.permit(), Some(Permit { id: granted_us, cost: 2, expires_us, granted_us }));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Permit {
    /// Names the permit among those of its key, also after earlier ones have ended.
    pub id: u64,
    /// How many places it holds.
    pub cost: u64,
    /// When its lease ends, in µs since the Unix epoch.
    pub expires_us: u64,
    /// When it was granted, in µs: leases that end by then are forgotten.
    pub granted_us: u64,
}

impl Permits {
    /// The permits held.
    pub fn held(&self) -> &[Permit] {
        &self.held
    }

    /// Kept until the clock has passed the ids too: a new state counts them from now.
    pub(super) fn end_us(&self) -> u64 {
        self.held.last().map_or(0, |permit| permit.expires_us).max(self.next_id)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.held.capacity() * size_of::<Permit>()
    }

    pub(super) fn apply(state: &mut State, permit: Permit) {
        if !matches!(state, State::Permits(_)) {
            *state = State::Permits(Self::default());
        }
        let State::Permits(permits) = state else { return };
        permits.forget_ended(permit.granted_us, permit.expires_us);
        if permit.cost > 0 {
            permits.reserve_one();
            permits.held.push(permit);
            permits.next_id = permit.id + 1;
        }
    }

    /// Makes room for one more: for the first alone, as most keys have no more, and then half as many again.
    fn reserve_one(&mut self) {
        if self.held.len() == self.held.capacity() {
            self.held.reserve_exact((self.held.len() / 2).max(1));
        }
    }

    /// Forgets what has ended. A lease that starts now ends at `longest_us`, and none ends later.
    fn forget_ended(&mut self, now_us: u64, longest_us: u64) {
        self.held.retain(|held| held.expires_us > now_us);
        for held in &mut self.held {
            // Granted by a clock that has since stepped back: no lease outlives its length.
            held.expires_us = held.expires_us.min(longest_us);
        }
    }

    /// Gives a permit a whole lease from now. `false` if it is not held: it was released, or its lease has ended.
    pub(crate) fn renew(&mut self, id: u64, cost: u64, now_us: u64, lease_us: u64) -> bool {
        let is_held =
            |held: &Permit| held.id == id && held.cost == cost && held.expires_us > now_us;
        let Some(position) = self.held.iter().position(is_held) else { return false };
        let permit = self.held.remove(position);
        let expires_us = now_us + lease_us;
        self.forget_ended(now_us, expires_us);
        self.held.push(Permit { expires_us, ..permit });
        true
    }

    /// Gives a permit back. `false` if it was not held: released before, or its lease had ended.
    pub(crate) fn release(&mut self, id: u64) -> bool {
        let before = self.held.len();
        self.held.retain(|permit| permit.id != id);
        self.held.len() < before
    }
}
