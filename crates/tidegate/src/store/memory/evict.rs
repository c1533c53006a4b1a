//! Letting go: idle keys as the store goes along, others only when the byte cap leaves no choice.

use std::sync::atomic::Ordering;

use tidegate_core::Timestamp;

use super::bucket::Bucket;
use super::{MemoryStore, word};

/// Lines looked at to make room for one state: enough that a spent key is only given up where almost all
/// are spent.
const ROOM_LINES: u64 = 64;

/// How soon a key may go: the smallest goes first.
type Worth = (bool, u64);

impl MemoryStore {
    /// Drops the idle keys of the next few lines. Runs by itself as new keys come; call it from a timer
    /// to have memory free sooner.
    pub fn sweep(&self, now: Timestamp, lines: u64) {
        let first = self.hand.fetch_add(lines, Ordering::Relaxed);
        let all = self.table.lines();
        for step in 0..lines.min(all) {
            let line = self.table.line((first.wrapping_add(step)) % all);
            if self.has_idle(line, now) {
                let _locked = line.lock();
                self.drop_idle(line, now);
            }
        }
    }

    /// A look without a lock, so that lines with nothing to drop stay undisturbed.
    fn has_idle(&self, line: &Bucket, now: Timestamp) -> bool {
        self.table.entries(line).any(|entry| {
            let word = entry.word();
            let idle = || word::idle_from_us(word) <= now.as_micros();
            word != 0 && (word::to_wide(word).is_some() || idle())
        })
    }

    /// The line is locked.
    fn drop_idle(&self, line: &Bucket, now: Timestamp) {
        self.table.retain(line, |fingerprint, word| match self.worth(word) {
            Some((_, idle_from)) if idle_from <= now.as_micros() => !self.let_go(fingerprint, word),
            _ => true,
        });
    }

    /// Drops the idle keys of a locked line, or failing that the one that is worth the least. Never one of
    /// `needed`.
    pub(super) fn evict_from(&self, line: &Bucket, now: Timestamp, needed: &[u64]) {
        let before = self.table.keys();
        self.drop_idle(line, now);
        if self.table.keys() < before {
            return;
        }
        let candidates = self
            .table
            .entries(line)
            .filter(|entry| entry.fingerprint() != 0 && !needed.contains(&entry.fingerprint()));
        let worths = candidates.filter_map(|entry| Some((self.worth(entry.word())?, entry)));
        let Some((_, victim)) = worths.min_by_key(|(worth, _)| *worth) else { return };
        let victim = victim.fingerprint();
        self.table.retain(line, |fingerprint, word| {
            fingerprint != victim || !self.let_go(fingerprint, word)
        });
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    /// Frees memory for one more wide state: sweeps, and if nothing was idle gives up the least worth.
    pub(super) fn make_room(&self, now: Timestamp) {
        let before = self.table.keys();
        self.sweep(now, ROOM_LINES);
        if self.table.keys() < before {
            return;
        }
        let (first, all) = (self.hand.load(Ordering::Relaxed), self.table.lines());
        let lines = (0..ROOM_LINES.min(all)).map(|step| self.table.line((first + step) % all));
        let worst = lines
            .flat_map(|line| self.table.entries(line).map(move |entry| (line, entry.word())))
            .filter(|(_, word)| word::to_wide(*word).is_some())
            .filter_map(|(line, word)| Some((self.worth(word)?, line)))
            .min_by_key(|(worth, _)| *worth);
        if let Some((_, line)) = worst {
            let _locked = line.lock();
            self.evict_from(line, now, &[]);
        }
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
