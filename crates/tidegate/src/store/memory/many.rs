//! Several limits in one atomic step: their lines are locked in order, decided, written, and unlocked.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use tidegate_core::{State, Timestamp};

use super::bucket::{Entry, Locked, Word};
use super::table::Insert;
use super::wide::Wide;
use super::{MemoryStore, word};
use crate::store::held::decide_states;
use crate::store::{KeyedLimit, Op, StoreReply, StoreRequest};

const MAX: usize = StoreRequest::MAX_LIMITS;

/// A state while its line is locked.
pub(super) enum Held<'a> {
    Word(State),
    Wide(MutexGuard<'a, Wide>),
}

impl AsRef<State> for Held<'_> {
    fn as_ref(&self) -> &State {
        match self {
            Self::Word(state) => state,
            Self::Wide(wide) => &wide.state,
        }
    }
}

impl AsMut<State> for Held<'_> {
    fn as_mut(&mut self) -> &mut State {
        match self {
            Self::Word(state) => state,
            Self::Wide(wide) => &mut wide.state,
        }
    }
}

impl MemoryStore {
    pub(super) fn decide_many_limits(
        &self,
        request: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Option<StoreReply> {
        if !matches!(request.op, Op::Take | Op::Peek) && !request.is_valid() {
            return None;
        }
        self.in_one_step::<MAX, _>(request.limits, now, |held, wrote| {
            decide_states(request, held, wrote, now)
        })?
    }

    /// Decides the states of up to `N` limits in one atomic step, and writes back those that `decide` says it wrote.
    /// `None` if there are more, or if one state is named twice.
    pub(super) fn in_one_step<const N: usize, R>(
        &self,
        limits: &[KeyedLimit<'_>],
        now: Timestamp,
        decide: impl FnOnce(&mut [Held<'_>], &mut [bool]) -> R,
    ) -> Option<R> {
        if limits.len() > N {
            return None;
        }
        let mut fingerprints = [0; N];
        for (fingerprint, limit) in fingerprints.iter_mut().zip(limits) {
            *fingerprint = self.fingerprint(limit.scope, limit.key);
        }
        let fingerprints = &fingerprints[..limits.len()];
        if (1..limits.len()).any(|index| fingerprints[..index].contains(&fingerprints[index])) {
            return None; // one state cannot be decided and charged twice at once
        }
        if self.wide.is_starved() {
            // Nothing can be evicted while lines are locked: make room before.
            for _ in limits {
                self.make_room(now);
            }
        }
        let (answer, inserted) = self.decide_locked::<N, R>(limits, fingerprints, now, decide);
        // Upkeep waits for lines, so that nothing may be locked any more.
        for _ in 0..inserted {
            self.after_insert(now);
        }
        self.stay_under_cap(now);
        Some(answer)
    }

    /// The atomic step itself, and how many new entries it took. All locks are its own.
    fn decide_locked<const N: usize, R>(
        &self,
        limits: &[KeyedLimit<'_>],
        fingerprints: &[u64],
        now: Timestamp,
        decide: impl FnOnce(&mut [Held<'_>], &mut [bool]) -> R,
    ) -> (R, usize) {
        let _locks = self.lock_lines::<N>(fingerprints);
        let mut held: [Held<'_>; N] = std::array::from_fn(|_| Held::Word(State::Empty));
        for (held, fingerprint) in held.iter_mut().zip(fingerprints) {
            *held = self.hold(*fingerprint);
        }
        let held = &mut held[..limits.len()];
        let mut wrote = [false; N];
        let answer = decide(held, &mut wrote);
        let mut inserted = 0;
        for (index, keyed) in limits.iter().enumerate().filter(|(index, _)| wrote[*index]) {
            let held = std::mem::replace(&mut held[index], Held::Word(State::Empty));
            let spent = keyed.limit.peek(held.as_ref(), now, 0).remaining() == 0;
            let new = self.put_back(fingerprints[index], held, spent, now, fingerprints);
            inserted += usize::from(new);
        }
        (answer, inserted)
    }

    /// Locks the lines of all fingerprints, up to `N`, in ascending order, so that no two checks wait for each other.
    pub(super) fn lock_lines<const N: usize>(
        &self,
        fingerprints: &[u64],
    ) -> [Option<Locked<'_>>; N] {
        loop {
            let mut lines = [u64::MAX; N];
            for (line, fingerprint) in lines.iter_mut().zip(fingerprints) {
                *line = self.table.line_of(*fingerprint);
            }
            lines.sort_unstable();
            let mut locks = [const { None }; N];
            let mut before = u64::MAX;
            for (lock, line) in locks.iter_mut().zip(lines).take(fingerprints.len()) {
                if line != before {
                    *lock = Some(self.table.line(line).lock());
                    before = line;
                }
            }
            // While its line is locked a fingerprint stays where it is; before, it may have moved.
            let moved =
                |fingerprint| lines.binary_search(&self.table.line_of(fingerprint)).is_err();
            if !fingerprints.iter().any(|fingerprint| moved(*fingerprint)) {
                return locks;
            }
        }
    }

    /// The state of a fingerprint whose line is locked.
    fn hold(&self, fingerprint: u64) -> Held<'_> {
        let entry = self.table.find_locked(self.table.line_for(fingerprint).bucket, fingerprint);
        let word = entry.map_or(Word::NONE, Entry::word);
        match word::to_wide(word).and_then(|number| self.wide.lock(number)) {
            Some(wide) => Held::Wide(wide),
            None => Held::Word(self.units.to_state(word)),
        }
    }

    /// Writes a state back to its locked line. `true` if that took a new entry.
    fn put_back(
        &self,
        fingerprint: u64,
        held: Held<'_>,
        spent: bool,
        now: Timestamp,
        needed: &[u64],
    ) -> bool {
        let state = match held {
            Held::Wide(mut wide) => {
                wide.spent = spent;
                self.wide.recount(&mut wide);
                return false;
            }
            Held::Word(State::Empty) => {
                self.remove_locked(fingerprint);
                return false;
            }
            Held::Word(state) => state,
        };
        let line = self.table.line_for(fingerprint);
        // No memory for a wide state: this one is dropped, and counted. The next request makes room first.
        let Some((word, unpublished)) = self.to_word(fingerprint, state, spent) else {
            self.given_up.fetch_add(1, Ordering::Relaxed);
            return false;
        };
        if let Some(entry) = self.table.find_locked(line.bucket, fingerprint) {
            entry.set_word(word);
            return false;
        }
        if self.table.insert_locked(line.bucket, fingerprint, word) == Insert::Full {
            let _ = self.evict_from(line, now, needed, false)
                || self.evict_from(line, now, needed, true);
            if self.table.insert_locked(line.bucket, fingerprint, word) == Insert::Full {
                self.wide.withdraw(unpublished);
                self.given_up.fetch_add(1, Ordering::Relaxed);
            }
        }
        true
    }
}
