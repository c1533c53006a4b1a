//! What a node remembers of a store that had too few units.

use super::Step;

/// The store is asked again after this long at the latest, as units may come back unseen.
const MAX_US: u64 = 1_000_000;

/// Costs from `cost` on are refused for a while without asking.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Refusal {
    cost: u64,
    /// The store is not asked before.
    until_us: u64,
    /// When the store will have this many units, if nobody else comes; `u64::MAX` for never.
    least: u64,
    more_at_us: u64,
    /// The last reply was this refusal: it also answers those that waited for it, however late it came.
    fresh: bool,
    /// How long to pause requests the next time.
    pause_us: u64,
}

/// The result of a request.
pub(super) struct Outcome {
    pub(super) sent_us: u64,
    /// The least that was asked for, and whether it was refused.
    pub(super) least: u64,
    pub(super) refused: bool,
    /// Less was granted than was wanted ahead.
    pub(super) short: bool,
    /// How long until there is as much as the least again; `u64::MAX` for never.
    pub(super) more_after_us: u64,
}

impl Refusal {
    /// The refusal of a check, if it is refused. A unit takes at least `unit_us` to be refilled.
    pub(super) fn applies(
        &self,
        now_us: u64,
        cost: u64,
        waited: bool,
        unit_us: Option<u64>,
    ) -> Option<Step> {
        let pauses = now_us < self.until_us;
        if cost < self.cost || !(pauses || (waited && self.fresh)) {
            return None;
        }
        if self.more_at_us == u64::MAX {
            return Some(Step::Refuse { retry_after_us: None });
        }
        // What is known is the wait of another cost. Where units come one by one, each further one takes its time.
        let further_us = cost.saturating_sub(self.least).saturating_mul(unit_us.unwrap_or(0));
        let at_us = self.more_at_us.saturating_add(further_us).max(self.until_us);
        Some(Step::Refuse { retry_after_us: Some(at_us.saturating_sub(now_us).max(1)) })
    }

    /// Whether it is too early to fetch anything.
    pub(super) fn pauses(&self, now_us: u64) -> bool {
        now_us < self.until_us
    }

    /// Until the time of the store's `retry_after`. If the store has too few units repeatedly, for twice as long each time,
    /// up to half a lease's life: many units are requested now and then instead of one all the time. Units that the store
    /// gains meanwhile are not lost, since they are less than a burst.
    pub(super) fn learn(&mut self, outcome: &Outcome, ttl_us: u64) {
        let Outcome { sent_us, least, refused, short, more_after_us } = *outcome;
        let lacking = short || refused;
        let retry_us = if refused { more_after_us } else { 0 };
        let pause_us = if lacking { self.pause_us } else { 0 };
        let longer_us = (2 * self.pause_us).clamp(ttl_us / 16, ttl_us / 2);
        *self = Self {
            // In a pause not even one unit is requested.
            cost: if pause_us > retry_us || !refused { 1 } else { least },
            until_us: sent_us + retry_us.max(pause_us).min(MAX_US),
            least,
            more_at_us: sent_us.saturating_add(more_after_us),
            fresh: refused,
            pause_us: if lacking { longer_us } else { self.pause_us / 2 },
        };
    }

    /// The reply is lost.
    pub(super) fn forget_reply(&mut self) {
        self.fresh = false;
    }
}
