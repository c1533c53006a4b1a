//! Eviction: idle keys are swept as new keys come, others are evicted only at the byte cap.

use std::sync::atomic::Ordering;

use tidegate_core::Timestamp;

use super::bucket::{Bucket, Word};
use super::table::Line;
use super::{MemoryStore, ROOM_ATTEMPTS, ROOM_LINES, ROOM_STATES, word};

/// The most states that are evicted after one state has grown.
const GROWTH_ATTEMPTS: u64 = 32;

/// Whether a key is spent, and when it is idle: the smallest is evicted first.
type Worth = (bool, u64);

impl MemoryStore {
    /// Drops the keys of the next few lines that are idle since `since`. Runs by itself as new keys come; call
    /// it from a timer to have them gone sooner.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Clock, Limiter, ManualClock};
    /// let clock = ManualClock::default();
    /// let limiter = Limiter::builder("1/s").clock(clock.clone()).build()?;
    /// let _ = limiter.check("user-42");
    /// clock.advance(Duration::from_secs(60));
    /// limiter.store().sweep(clock.now(), 1 << 20); // more lines than there are
    /// assert_eq!(limiter.store().stats().keys, 0);
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn sweep(&self, since: Timestamp, lines: u64) {
        let first = self.sweep_cursor.fetch_add(lines, Ordering::Relaxed);
        let all = self.table.lines();
        for step in 0..lines.min(all) {
            let line = self.table.line((first.wrapping_add(step)) % all);
            if self.has_idle(line.bucket, since) {
                let _locked = line.lock();
                self.drop_idle(line, since);
            }
        }
    }

    /// Checks without a lock, so that lines with nothing to drop are not locked.
    fn has_idle(&self, line: &Bucket, since: Timestamp) -> bool {
        self.table.entries(line).any(|entry| {
            let word = entry.word();
            let idle = || self.units.idle_from_us(word) <= since.as_micros();
            !entry.is_free() && (word::to_wide(word).is_some() || idle())
        })
    }

    /// Drops the idle keys of a locked line, and answers how many.
    fn drop_idle(&self, line: Line<'_>, since: Timestamp) -> u64 {
        self.table.retain(line, |fingerprint, word| {
            let Some(number) = word::to_wide(word) else {
                return self.units.idle_from_us(word) > since.as_micros();
            };
            // One lock for the check and the drop: in between, another thread could spend from it.
            match self.wide.try_lock(number) {
                Some(mut wide)
                    if wide.owner() == Some(fingerprint) && wide.state.idle_from() <= since =>
                {
                    self.wide.remove(number, &mut wide);
                    false
                }
                _ => true,
            }
        })
    }

    /// Drops the idle keys of a locked line, or else the one of least worth: never one of `needed`, and a spent one only
    /// if `even_spent`. `false` if none could be dropped.
    pub(super) fn evict_from(
        &self,
        line: Line<'_>,
        now: Timestamp,
        needed: &[u64],
        even_spent: bool,
    ) -> bool {
        if self.drop_idle(line, now) > 0 {
            return true;
        }
        let victim = self
            .table
            .words(line)
            .filter(|(fingerprint, _)| !needed.contains(fingerprint))
            .filter_map(|(fingerprint, word)| Some((self.worth(word)?, fingerprint)))
            .filter(|((spent, _), _)| even_spent || !spent)
            .min_by_key(|(worth, _)| *worth);
        victim.is_some_and(|(_, victim)| self.give_up(line, victim))
    }

    /// Evicts one key of a locked line before it is idle. `false` if its state is in use.
    fn give_up(&self, line: Line<'_>, victim: u64) -> bool {
        let removed = self.table.retain(line, |fingerprint, word| {
            fingerprint != victim || !self.free_wide(fingerprint, word)
        });
        self.given_up.fetch_add(removed, Ordering::Relaxed);
        removed > 0
    }

    /// Frees an entry on the line of a fingerprint, or an overflow line for it. Idle keys elsewhere are dropped first,
    /// then keys with units left, here or elsewhere, and last a spent one.
    pub(super) fn make_room_on_line(&self, fingerprint: u64, now: Timestamp) {
        let has_room = || self.table.has_room(self.table.line_for(fingerprint).bucket);
        let evict_here = |even_spent| {
            let _locks = self.lock_lines::<1>(&[fingerprint]);
            self.evict_from(self.table.line_for(fingerprint), now, &[], even_spent)
        };
        for _ in 0..ROOM_ATTEMPTS {
            self.sweep(now, ROOM_LINES);
            if has_room() {
                return;
            }
        }
        if evict_here(false) {
            return;
        }
        for attempt in 0..ROOM_ATTEMPTS {
            for line in self.some_lines(attempt).filter(|line| self.table.ends_in_one(line.bucket))
            {
                let _locked = line.lock();
                if self.evict_from(line, now, &[], false) && has_room() {
                    return;
                }
            }
        }
        evict_here(true);
    }

    /// Frees memory for one more wide state: examines some, and drops idle ones, or else the one of least worth. If all of
    /// these are spent, it examines states from all over for one that is not.
    pub(super) fn make_room(&self, now: Timestamp) {
        let mut least: Option<(Worth, u64)> = None;
        let looks_far = self.wide.may_look_far();
        let numbers =
            self.wide.next_numbers(ROOM_STATES, if looks_far { ROOM_ATTEMPTS } else { 0 });
        for (looked_at, number) in (0..).zip(numbers) {
            if looked_at >= ROOM_STATES && least.is_some_and(|((spent, _), _)| !spent) {
                break;
            }
            let Some(wide) = self.wide.try_lock(number) else { continue };
            let Some(owner) = wide.owner() else { continue };
            let idle_from = wide.state.idle_from();
            let (worth, idle) = ((wide.spent, idle_from.as_micros()), idle_from <= now);
            drop(wide);
            if idle {
                let _locks = self.lock_lines::<1>(&[owner]);
                if self.drop_idle(self.table.line_for(owner), now) > 0 {
                    return;
                }
            }
            least = least.into_iter().chain([(worth, owner)]).min_by_key(|(worth, _)| *worth);
        }
        if let Some(((spent, _), owner)) = least {
            if spent && looks_far {
                self.wide.all_are_spent();
            }
            let _locks = self.lock_lines::<1>(&[owner]);
            self.give_up(self.table.line_for(owner), owner);
        }
    }

    /// Evicts wide states until the store is under its cap again, after one of them has grown.
    pub(super) fn stay_under_cap(&self, now: Timestamp) {
        for _ in 0..GROWTH_ATTEMPTS {
            if !self.budget.exceeded() {
                return;
            }
            self.make_room(now);
        }
    }

    /// A run of lines, another one each time, chosen as often as new keys come to them. Otherwise the lines that have
    /// been split already, which get half as many keys, would soon hold only spent ones.
    fn some_lines(&self, attempt: u64) -> impl Iterator<Item = Line<'_>> {
        let request = self.given_up.load(Ordering::Relaxed) * ROOM_ATTEMPTS + attempt;
        let first = self.table.line_of(request.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let all = self.table.lines();
        (0..ROOM_LINES.min(all)).map(move |step| self.table.line((first + step) % all))
    }

    /// Forgets one key.
    pub(super) fn remove(&self, fingerprint: u64) {
        let _locks = self.lock_lines::<1>(&[fingerprint]);
        self.remove_locked(fingerprint);
    }

    /// Forgets one key whose line is locked.
    pub(super) fn remove_locked(&self, fingerprint: u64) {
        self.table.retain(self.table.line_for(fingerprint), |found, word| {
            if found == fingerprint
                && let Some(number) = word::to_wide(word)
                && let Some(mut wide) = self.wide.lock(number)
            {
                self.wide.remove(number, &mut wide);
            }
            found != fingerprint
        });
    }

    /// The worth of a key; `None` while its state is in use.
    fn worth(&self, word: Word) -> Option<Worth> {
        let Some(number) = word::to_wide(word) else {
            return Some((word::is_spent(word), self.units.idle_from_us(word)));
        };
        let wide = self.wide.try_lock(number)?;
        Some((wide.spent, wide.state.idle_from().as_micros()))
    }

    /// Frees the wide state of a word, if it has one. `false` if that is in use, and must stay.
    fn free_wide(&self, fingerprint: u64, word: Word) -> bool {
        let Some(number) = word::to_wide(word) else { return true };
        match self.wide.try_lock(number) {
            Some(mut wide) if wide.owner() == Some(fingerprint) => {
                self.wide.remove(number, &mut wide);
                true
            }
            _ => false,
        }
    }
}
