//! Letting go: idle keys as the store goes along, others only when the byte cap leaves no choice.

use std::sync::atomic::Ordering;

use tidegate_core::Timestamp;

use super::bucket::Bucket;
use super::{MemoryStore, ROOM_ATTEMPTS, ROOM_LINES, word};

/// How soon a key may go: the smallest goes first.
type Worth = (bool, u64);

impl MemoryStore {
    /// Drops the keys of the next few lines that are idle since `since`. Runs by itself as new keys come; call
    /// it from a timer to have them gone sooner.
    pub fn sweep(&self, since: Timestamp, lines: u64) {
        let first = self.hand.fetch_add(lines, Ordering::Relaxed);
        let all = self.table.lines();
        for step in 0..lines.min(all) {
            let line = self.table.line((first.wrapping_add(step)) % all);
            if self.has_idle(line, since) {
                let _locked = line.lock();
                self.drop_idle(line, since);
            }
        }
    }

    /// A look without a lock, so that lines with nothing to drop stay undisturbed.
    fn has_idle(&self, line: &Bucket, since: Timestamp) -> bool {
        self.table.entries(line).any(|entry| {
            let word = entry.word();
            let idle = || word::idle_from_us(word) <= since.as_micros();
            word != 0 && (word::to_wide(word).is_some() || idle())
        })
    }

    /// The line is locked.
    fn drop_idle(&self, line: &Bucket, since: Timestamp) {
        self.table.retain(line, |fingerprint, word| match self.worth(word) {
            Some((_, idle_from)) if idle_from <= since.as_micros() => {
                !self.let_go(fingerprint, word)
            }
            _ => true,
        });
    }

    /// Drops the idle keys of a locked line, or failing that the one that is worth the least: never one of `needed`,
    /// and a spent one only if `even_spent`. `false` if nothing could go.
    pub(super) fn evict_from(
        &self,
        line: &Bucket,
        now: Timestamp,
        needed: &[u64],
        even_spent: bool,
    ) -> bool {
        let before = self.table.keys();
        self.drop_idle(line, now);
        if self.table.keys() < before {
            return true;
        }
        let victim = self
            .table
            .entries(line)
            .filter(|entry| !entry.is_free() && !needed.contains(&entry.fingerprint()))
            .filter_map(|entry| Some((self.worth(entry.word())?, entry.fingerprint())))
            .filter(|((spent, _), _)| even_spent || !spent)
            .min_by_key(|(worth, _)| *worth);
        let Some((_, victim)) = victim else { return false };
        self.table.retain(line, |fingerprint, word| {
            fingerprint != victim || !self.let_go(fingerprint, word)
        });
        self.given_up.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Frees an entry on the line of a fingerprint, or an overflow line for it. Idle keys elsewhere go first, then
    /// keys with something left, here or elsewhere, and last a spent one.
    pub(super) fn make_room_on_line(&self, fingerprint: u64, now: Timestamp) {
        let has_room = || self.table.has_room(self.home_of(fingerprint));
        let evict_here = |even_spent| {
            let _locks = self.lock_lines(&[fingerprint]);
            self.evict_from(self.home_of(fingerprint), now, &[], even_spent)
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
            for line in self.some_lines(attempt).filter(|line| self.table.ends_in_one(line)) {
                let _locked = line.lock();
                if self.evict_from(line, now, &[], false) && has_room() {
                    return;
                }
            }
        }
        evict_here(true);
    }

    /// Frees memory for one more wide state: sweeps, and if nothing was idle gives up the least worth.
    pub(super) fn make_room(&self, now: Timestamp) {
        let before = self.table.keys();
        self.sweep(now, ROOM_LINES);
        if self.table.keys() < before {
            return;
        }
        // A spent key only goes where no other is found in several places.
        let mut worst: Option<(Worth, &Bucket)> = None;
        for attempt in 0..ROOM_ATTEMPTS {
            let found = self
                .some_lines(attempt)
                .flat_map(|line| self.table.entries(line).map(move |entry| (line, entry.word())))
                .filter(|(_, word)| word::to_wide(*word).is_some())
                .filter_map(|(line, word)| Some((self.worth(word)?, line)))
                .min_by_key(|(worth, _)| *worth);
            worst = worst.into_iter().chain(found).min_by_key(|(worth, _)| *worth);
            if worst.is_some_and(|((spent, _), _)| !spent) {
                break;
            }
        }
        if let Some((_, line)) = worst {
            let _locked = line.lock();
            self.evict_from(line, now, &[], true);
        }
    }

    /// Some lines together: others each time, and as often as new keys come to them. Otherwise the lines that have
    /// been split already, which get half as many, would soon hold none but spent keys.
    fn some_lines(&self, attempt: u64) -> impl Iterator<Item = &Bucket> {
        let turn = self.given_up.load(Ordering::Relaxed) * ROOM_ATTEMPTS + attempt;
        let first = self.table.line_of(turn.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let all = self.table.lines();
        (0..ROOM_LINES.min(all)).map(move |step| self.table.line((first + step) % all))
    }

    /// Forgets one key.
    pub(crate) fn remove(&self, fingerprint: u64) {
        let _locks = self.lock_lines(&[fingerprint]);
        self.remove_locked(fingerprint);
    }

    /// Forgets one key whose line is locked.
    pub(super) fn remove_locked(&self, fingerprint: u64) {
        let line = self.table.line(self.table.line_of(fingerprint));
        self.table.retain(line, |found, word| {
            if found == fingerprint {
                self.drop_wide(word);
            }
            found != fingerprint
        });
    }

    /// What a key is worth; `None` while its state is in use.
    fn worth(&self, word: u64) -> Option<Worth> {
        let Some(number) = word::to_wide(word) else {
            return Some((word::is_spent(word), word::idle_from_us(word)));
        };
        let wide = self.wide.try_lock(number)?;
        Some((wide.spent, wide.state.idle_from().as_micros()))
    }

    /// Frees what a word names beside the table. `false` if it is in use, and must stay.
    fn let_go(&self, fingerprint: u64, word: u64) -> bool {
        let Some(number) = word::to_wide(word) else { return true };
        match self.wide.try_lock(number) {
            Some(mut wide) if wide.fingerprint == fingerprint => {
                self.wide.remove(number, &mut wide);
                true
            }
            _ => false,
        }
    }
}
