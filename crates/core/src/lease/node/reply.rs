//! How a node handles the store's reply, or its absence.

use super::{LeaseHolder, LeaseRequest};
use crate::lease::Grant;
use crate::lease::held::Lease;
use crate::lease::refusal::Outcome;

impl LeaseHolder {
    /// Takes what the store has answered.
    ///
    /// ```
    /// # use tidegate_core::{Change, LeaseHolder, Limit, Message, State, Step, Terms, Timestamp, grant};
    /// let limits: [Limit; 1] = ["fixed-window 5/h".parse()?];
    /// let mut holder = LeaseHolder::new(Terms::from_limits(&limits)?);
    /// assert_eq!(holder.check(0, 3), Step::Wait);
    /// let Some(Message::Ask(wanted)) = holder.poll(0) else { return Err("asks".into()) };
    /// let (states, now) = ([State::Empty], Timestamp::from_micros(1_700_000_000_000_000));
    /// let granted = grant(limits.iter().zip(&states), &mut [Change::KEEP], now, wanted);
    /// holder.on_reply(700, &granted.ok_or("no limit")?);
    /// assert_eq!(holder.resume(700, 3), Step::Admit { remaining: 2, late: false });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_reply(&mut self, now_us: u64, grant: &Grant) {
        let Some(LeaseRequest { sent_us, wanted, waiting }) = self.asked.take() else { return };
        (self.least, self.waiting, self.late) = (0, 0, 0);
        let decision = &grant.verdict.decision;
        self.beyond = decision.remaining();
        let outcome = Outcome {
            sent_us,
            refused: (grant.units == 0).then_some(wanted.least),
            short: grant.units < wanted.most && wanted.most > waiting.max(wanted.least),
            retry_after_us: decision.retry_after_us(),
        };
        self.refusal.learn(&outcome, self.terms.ttl_us);
        if grant.units == 0 {
            return;
        }
        // From before the request was sent, so that no unit is used later than `ttl` after it was paid for; and a
        // thousandth less, so that this holds for a clock that runs too slowly by as much.
        let life_us = self.terms.ttl_us.min(grant.ends_after_us);
        let ends_us = sent_us + life_us - life_us.div_ceil(1024);
        let (left, granted_at) = (grant.units, grant.granted_at);
        self.held.add(Lease { left, ends_us, sent_us, granted_at });
        if now_us >= ends_us {
            self.late = grant.units.min(waiting);
        }
        // Two round trips' worth, but not more than half of what comes at a time.
        let trip_us = now_us.saturating_sub(sent_us);
        self.low_water = self.demand.within(2 * trip_us).min(grant.units / 2);
        self.quiet_until_us = self.wakes_us().unwrap_or(u64::MAX);
    }

    /// No reply came in time, and none will be taken any more: what was granted, if anything was, is lost. Those
    /// who wait are resumed, or answered by the failure policy.
    ///
    /// ```
    /// # use tidegate_core::{LeaseHolder, Limit, Step, Terms};
    /// let limit: Limit = "fixed-window 5/h".parse()?;
    /// let mut holder = LeaseHolder::new(Terms::from_limits([&limit])?);
    /// assert_eq!(holder.check(0, 3), Step::Wait);
    /// assert!(holder.poll(0).is_some());
    /// holder.on_failure();
    /// assert!(holder.is_idle()); // as if it had never asked
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_failure(&mut self) {
        self.asked = None;
        (self.least, self.waiting, self.late) = (0, 0, 0);
        self.refusal.forget_reply();
    }
}
