//! How long a node leaves a store alone that has just failed.

/// The first pause.
const FIRST_US: u64 = 5_000;

/// The longest pause. A breaker takes up to 70 ms to notice that its store is back; with this pause on top a key
/// is leased again within 100 ms.
const LONGEST_US: u64 = 25_000;

/// The pause after the failures so far. Nothing is asked for in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    until_us: u64,
    step_us: u64,
}

impl Backoff {
    pub(super) const fn pauses(&self, now_us: u64) -> bool {
        now_us < self.until_us
    }

    /// Twice as long with each failure, and between half and the whole of that, so that neither the keys of a node
    /// nor the nodes of a fleet ask in step.
    pub(super) fn on_failure(&mut self, now_us: u64, random: u64) {
        self.step_us = (2 * self.step_us).clamp(FIRST_US, LONGEST_US);
        self.until_us = now_us.saturating_add(self.step_us - random % (self.step_us / 2 + 1));
    }

    pub(super) fn on_reply(&mut self) {
        *self = Self::default();
    }
}
