//! What a node remembers of a store that had too few units.

/// No longer than this, as units may come back unseen.
const MAX_US: u64 = 1_000_000;

/// Costs from `cost` on are refused for a while without asking.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    cost: u64,
    until_us: u64,
    /// The last reply was this refusal: it also answers those that waited for it, however late it came.
    fresh: bool,
    /// How long to pause requests the next time.
    pause_us: u64,
}

/// The result of a request.
pub(super) struct Outcome {
    pub(super) sent_us: u64,
    /// The cost that was refused; `None` if there was a grant.
    pub(super) refused: Option<u64>,
    /// Less was granted than was wanted ahead.
    pub(super) short: bool,
    pub(super) retry_after_us: Option<u64>,
}

impl Refusal {
    /// How long a check has to wait, if it is refused.
    pub(super) fn applies(&self, now_us: u64, cost: u64, waited: bool) -> Option<u64> {
        let wait_us = self.until_us.saturating_sub(now_us);
        let refused = cost >= self.cost && (wait_us > 0 || (waited && self.fresh));
        refused.then_some(wait_us.max(1))
    }

    /// Whether it is too early to fetch anything.
    pub(super) fn pauses(&self, now_us: u64) -> bool {
        now_us < self.until_us
    }

    /// Until the time of the store's `retry_after`. If the store has too few units repeatedly, for twice as long each time,
    /// up to half a lease's life: many units are requested now and then instead of one all the time. Units that the store
    /// gains meanwhile are not lost, since they are less than a burst.
    pub(super) fn learn(&mut self, outcome: &Outcome, ttl_us: u64) {
        let Outcome { sent_us, refused, short, retry_after_us } = *outcome;
        let lacking = short || refused.is_some();
        let retry_us = if refused.is_some() { retry_after_us.unwrap_or(MAX_US) } else { 0 };
        let pause_us = if lacking { self.pause_us } else { 0 };
        let longer_us = (2 * self.pause_us).clamp(ttl_us / 16, ttl_us / 2);
        *self = Self {
            // In a pause not even one unit is requested.
            cost: if pause_us > retry_us { 1 } else { refused.unwrap_or(1) },
            until_us: sent_us + retry_us.max(pause_us).min(MAX_US),
            fresh: refused.is_some(),
            pause_us: if lacking { longer_us } else { self.pause_us / 2 },
        };
    }

    /// The reply is lost.
    pub(super) fn forget_reply(&mut self) {
        self.fresh = false;
    }
}
