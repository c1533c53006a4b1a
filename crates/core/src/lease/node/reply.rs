//! How a node handles the store's reply, or its absence.

use super::{LeaseHolder, LeaseRequest};
use crate::lease::Grant;
use crate::lease::held::Lease;
use crate::lease::refusal::{Outcome, Refusal};

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
        self.backoff.on_reply();
        let decision = &grant.verdict.decision;
        self.beyond = decision.remaining();
        let outcome = Outcome {
            sent_us,
            least: wanted.least,
            refused: grant.units == 0,
            short: grant.units < wanted.most && wanted.most > waiting.max(wanted.least),
            more_after_us: grant.more_after_us,
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

    /// The store failed, or no reply came in time and none will be taken any more: what was granted, if anything was, is
    /// lost. Those who wait are answered by the failure policy. Nothing is asked for in the next 5 ms, and after more
    /// failures in a row in up to 25 ms; `random` shortens that by up to half.
    ///
    /// ```
    /// # use tidegate_core::{LeaseHolder, Limit, Step, Terms};
    /// let limit: Limit = "fixed-window 5/h".parse()?;
    /// let mut holder = LeaseHolder::new(Terms::from_limits([&limit])?);
    /// assert_eq!(holder.check(0, 3), Step::Wait);
    /// assert!(holder.poll(0).is_some());
    /// holder.on_failure(20_000, 0);
    /// assert!(holder.is_idle());
    /// assert_eq!(holder.check(24_999, 3), Step::Unavailable);
    /// assert_eq!(holder.check(25_000, 3), Step::Wait);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_failure(&mut self, now_us: u64, random: u64) {
        self.cancel();
        self.backoff.on_failure(now_us, random);
    }

    /// Units may have come back unseen, as by a refund: what the store refused says nothing any more. After a reply it is
    /// called before those who wait are resumed; they ask again.
    ///
    /// ```
    /// # use tidegate_core::{Change, LeaseHolder, Limit, Message, State, Step, Terms, Timestamp, grant};
    /// let limits: [Limit; 1] = ["fixed-window 5/h".parse()?];
    /// let (mut holder, mut state) = (LeaseHolder::new(Terms::from_limits(&limits)?), State::Empty);
    /// let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let _ = limits[0].take(&mut state, now, 5); // by another node
    /// assert_eq!(holder.check(0, 3), Step::Wait);
    /// let Some(Message::Ask(wanted)) = holder.poll(0) else { return Err("asks".into()) };
    /// let refused = grant(limits.iter().zip([&state]), &mut [Change::KEEP], now, wanted);
    /// holder.on_reply(700, &refused.ok_or("no limit")?);
    /// assert!(matches!(holder.check(900, 3), Step::Refuse { .. }));
    /// holder.forget_refusal();
    /// assert_eq!(holder.check(900, 3), Step::Wait);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forget_refusal(&mut self) {
        self.refusal = Refusal::default();
    }

    /// The request could not be sent, for a reason that is not the store's: as if it had never been asked for.
    ///
    /// ```
    /// # use tidegate_core::{LeaseHolder, Limit, Step, Terms};
    /// let limit: Limit = "fixed-window 5/h".parse()?;
    /// let mut holder = LeaseHolder::new(Terms::from_limits([&limit])?);
    /// assert_eq!(holder.check(0, 3), Step::Wait);
    /// assert!(holder.poll(0).is_some());
    /// holder.cancel();
    /// assert!(holder.is_idle());
    /// assert_eq!(holder.check(0, 3), Step::Wait);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&mut self) {
        self.asked = None;
        (self.least, self.waiting, self.late) = (0, 0, 0);
        self.refusal.forget_reply();
    }
}
