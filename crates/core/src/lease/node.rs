//! The node's side of a lease: time and replies in, decisions and messages out, for one key.

mod reply;

use super::backoff::Backoff;
use super::demand::Demand;
use super::held::Held;
use super::refusal::Refusal;
use super::{GrantRequest, Message, Step, Terms};

/// One key on one node: what it holds, and what it has asked for.
///
/// All instants are the node's own, in µs on a clock that never steps back, and does not stand still while the
/// machine sleeps; they need not agree with anybody else's. The caller
///
/// 1. calls [`LeaseHolder::check`], and keeps the check in a bounded queue if it has to wait;
/// 2. calls [`LeaseHolder::poll`] until it answers `None`, and sends the messages; at [`LeaseHolder::wakes_us`] again;
/// 3. passes the reply to [`LeaseHolder::on_reply`], or calls [`LeaseHolder::on_failure`] when none came (or
///    [`LeaseHolder::cancel`] when the request could not be sent), then calls
///    [`LeaseHolder::resume`] for each check in the queue, the oldest first, and polls again.
///
/// ```
/// use tidegate_core::{Change, LeaseHolder, Limit, Message, State, Step, Terms, Timestamp, grant};
///
/// let plain: Limit = "1000/s burst 1000".parse()?;
/// let terms = Terms::from_limits([&plain])?;
/// let (limits, mut states) = ([plain.leased(terms.ttl())?], [State::Empty]);
/// let mut holder = LeaseHolder::new(terms);
///
/// // A cold key asks for exactly its cost.
/// assert_eq!(holder.check(5_000, 2), Step::Wait);
/// let Some(Message::Ask(wanted)) = holder.poll(5_000) else { return Err("asks".into()) };
/// assert_eq!((wanted.least, wanted.most), (2, 2));
///
/// // The store decides by its own clock.
/// let (mut changes, now) = ([Change::KEEP], Timestamp::from_micros(1_700_000_000_000_000));
/// let granted = grant(limits.iter().zip(&states), &mut changes, now, wanted).ok_or("limits")?;
/// states[0].apply(changes[0]);
///
/// holder.on_reply(5_700, &granted);
/// assert_eq!(holder.resume(5_700, 2), Step::Admit { remaining: 748, late: false });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct LeaseHolder {
    terms: Terms,
    demand: Demand,
    held: Held,
    asked: Option<LeaseRequest>,
    refusal: Refusal,
    backoff: Backoff,
    /// The cost of the first check that waits for the next request, and of all of them.
    least: u64,
    waiting: u64,
    /// What the store had left beyond the last grant.
    beyond: u64,
    /// Down to this many units the next lease is fetched.
    low_water: u64,
    /// Units with which a reply that came too late for its lease still decides checks that waited for it.
    late: u64,
    /// Nothing is due before this instant.
    quiet_until_us: u64,
    releasing: bool,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct LeaseRequest {
    sent_us: u64,
    wanted: GrantRequest,
    /// The cost of all that waited when it was sent.
    waiting: u64,
}

impl LeaseHolder {
    /// Holds nothing yet.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            demand: Demand::new(terms.ttl_us),
            held: Held::default(),
            asked: None,
            refusal: Refusal::default(),
            backoff: Backoff::default(),
            least: 0,
            waiting: 0,
            beyond: 0,
            low_water: 0,
            late: 0,
            quiet_until_us: 0,
            releasing: false,
        }
    }

    /// The holder of the same key under other terms, or after a reset: it holds nothing, but still leaves a store alone
    /// that has just failed.
    ///
    /// ```
    /// # use tidegate_core::{LeaseHolder, Limit, Step, Terms};
    /// let limit: Limit = "1000/s burst 1000".parse()?;
    /// let terms = Terms::from_limits([&limit])?;
    /// let mut holder = LeaseHolder::new(terms);
    /// assert_eq!(holder.check(0, 1), Step::Wait);
    /// assert!(holder.poll(0).is_some());
    /// holder.on_failure(700, 0);
    /// assert_eq!(holder.successor(terms).check(700, 1), Step::Unavailable);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn successor(&self, terms: Terms) -> Self {
        Self { backoff: self.backoff, ..Self::new(terms) }
    }

    /// Decides a check, or answers that it has to wait for the store.
    #[inline]
    pub fn check(&mut self, now_us: u64, cost: u64) -> Step {
        if cost > self.terms.ceiling {
            return Step::Refuse { retry_after_us: None };
        }
        self.demand.note(now_us, cost);
        let lease = self.held.first();
        if now_us < lease.ends_us && cost <= lease.left {
            lease.left -= cost;
            return Step::Admit { remaining: lease.left + self.beyond, late: false };
        }
        self.decide(now_us, cost, false).unwrap_or_else(|| self.wait(cost))
    }

    /// Decides a check that has waited. To be called for each, the oldest first, after a reply or a failure. It
    /// may have to wait once more, if it came after the request had left or more was waited for than was
    /// granted; the first one that a request was sent for never has to.
    pub fn resume(&mut self, now_us: u64, cost: u64) -> Step {
        self.resume_once(now_us, cost).unwrap_or_else(|| self.wait(cost))
    }

    /// As [`LeaseHolder::resume`], for a check that is not to wait again: `None` if it would have to.
    ///
    /// ```
    /// # use tidegate_core::{LeaseHolder, Limit, Terms};
    /// let limit: Limit = "1000/s burst 1000".parse()?;
    /// let mut holder = LeaseHolder::new(Terms::from_limits([&limit])?);
    /// assert_eq!(holder.resume_once(0, 2), None);
    /// assert_eq!(holder.poll(0), None); // nothing is asked for it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn resume_once(&mut self, now_us: u64, cost: u64) -> Option<Step> {
        if cost <= self.late {
            self.late -= cost;
            self.held.spend_late(cost);
            return Some(Step::Admit { remaining: self.beyond, late: true });
        }
        // The next in the queue may have come after the request had left.
        self.late = 0;
        self.decide(now_us, cost, true)
    }

    /// A check that waits is not resumed any more, because its caller has gone. Another one that came after the request
    /// had left must not get its units of a late reply.
    ///
    /// ```
    /// # use tidegate_core::{Change, LeaseHolder, Limit, Message, State, Step, Terms, Timestamp, grant};
    /// let limits: [Limit; 1] = ["fixed-window 1000/h".parse()?];
    /// let mut holder = LeaseHolder::new(Terms::from_limits(&limits)?);
    /// assert_eq!(holder.check(0, 2), Step::Wait);
    /// let Some(Message::Ask(wanted)) = holder.poll(0) else { return Err("asks".into()) };
    /// assert_eq!(holder.check(500, 1), Step::Wait);
    /// let (states, now) = ([State::Empty], Timestamp::from_micros(1_700_000_000_000_000));
    /// let granted = grant(limits.iter().zip(&states), &mut [Change::KEEP], now, wanted);
    /// holder.withdraw(2);
    /// holder.on_reply(2_000_000, &granted.ok_or("no limit")?); // a lease lives for a second
    /// assert_eq!(holder.resume(2_000_000, 1), Step::Wait);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn withdraw(&mut self, cost: u64) {
        self.late = self.late.saturating_sub(cost);
        if let Some(asked) = &mut self.asked {
            asked.waiting = asked.waiting.saturating_sub(cost);
        }
    }

    fn decide(&mut self, now_us: u64, cost: u64, waited: bool) -> Option<Step> {
        let left = self.held.left(now_us);
        if cost <= left {
            self.held.spend(now_us, cost);
            return Some(Step::Admit { remaining: left - cost + self.beyond, late: false });
        }
        let refused = self.refusal.applies(now_us, cost, waited, self.terms.refill_us());
        refused.or_else(|| self.backoff.pauses(now_us).then_some(Step::Unavailable))
    }

    fn wait(&mut self, cost: u64) -> Step {
        if self.least == 0 {
            self.least = cost;
        }
        self.waiting = self.waiting.saturating_add(cost);
        Step::Wait
    }

    /// What is to be sent now. To be called after every check and reply, until it answers `None`.
    #[inline]
    pub fn poll(&mut self, now_us: u64) -> Option<Message> {
        let fetched = self.asked.is_some() || self.held.is_full();
        let supplied = fetched || self.held.first().left > self.low_water;
        if supplied && self.least == 0 && now_us < self.quiet_until_us {
            return None;
        }
        self.next_message(now_us)
    }

    fn next_message(&mut self, now_us: u64) -> Option<Message> {
        let stopped = now_us >= self.demand.stops_us();
        // A request needs room for its lease.
        let crowded = self.least > 0 && self.asked.is_none() && self.held.is_full();
        let all = self.releasing || stopped || crowded;
        while let Some(lease) = self.held.take_if(|lease| all || now_us >= lease.ends_us) {
            if let Some(back) = lease.into_return(now_us, self.terms.unit_us) {
                return Some(Message::Return(back));
            }
        }
        self.held.move_up();
        let wanted = self.wanted(now_us, stopped);
        self.quiet_until_us = self.wakes_us().unwrap_or(u64::MAX);
        let wanted = wanted?;
        self.asked = Some(LeaseRequest { sent_us: now_us, wanted, waiting: self.waiting });
        (self.least, self.waiting) = (0, 0);
        Some(Message::Ask(wanted))
    }

    /// The units that waiting checks need, and those that will soon be needed.
    fn wanted(&mut self, now_us: u64, stopped: bool) -> Option<GrantRequest> {
        if self.asked.is_some() || self.held.is_full() || self.backoff.pauses(now_us) {
            return None;
        }
        self.demand.measure(now_us);
        let ahead = if self.releasing { 0 } else { self.demand.ahead() };
        let low = self.held.first().left <= self.low_water;
        let fetch = ahead > 0 && low && !stopped && !self.refusal.pauses(now_us);
        let least = match (self.least, fetch) {
            (0, false) => return None,
            (0, true) => self.demand.last_cost.clamp(1, self.terms.ceiling),
            (least, _) => least,
        };
        Some(GrantRequest { least, most: ahead.max(self.waiting).clamp(least, self.terms.ceiling) })
    }

    /// Gives everything back at the next polls, and takes nothing ahead from now on: on shutdown.
    ///
    /// ```
    /// # use tidegate_core::{LeaseHolder, Limit, Message, Step, Terms};
    /// let limit: Limit = "1000/s burst 1000".parse()?;
    /// let mut holder = LeaseHolder::new(Terms::from_limits([&limit])?);
    /// holder.release();
    /// assert_eq!(holder.poll(0), None); // there is nothing to give back
    /// assert_eq!(holder.check(0, 2), Step::Wait);
    /// let Some(Message::Ask(wanted)) = holder.poll(0) else { return Err("asks".into()) };
    /// assert_eq!((wanted.least, wanted.most), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release(&mut self) {
        self.releasing = true;
        self.quiet_until_us = 0;
    }

    /// Whether nothing is held and nothing is requested: then only the measured demand would be lost.
    ///
    /// ```
    /// # use tidegate_core::{LeaseHolder, Limit, Step, Terms};
    /// let limit: Limit = "1000/s burst 1000".parse()?;
    /// let mut holder = LeaseHolder::new(Terms::from_limits([&limit])?);
    /// assert!(holder.is_idle());
    /// assert_eq!(holder.check(0, 1), Step::Wait);
    /// assert!(holder.poll(0).is_some() && !holder.is_idle());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_idle(&self) -> bool {
        self.asked.is_none() && self.held.ends_us().is_none()
    }

    /// When to poll again at the latest, if nothing happens before; `None` if nothing is held. Later checks may
    /// move it further.
    ///
    /// ```
    /// # use tidegate_core::{Change, LeaseHolder, Limit, Message, State, Step, Terms, Timestamp, grant};
    /// let limits: [Limit; 1] = ["fixed-window 1000/h".parse()?];
    /// let mut holder = LeaseHolder::new(Terms::from_limits(&limits)?);
    /// assert_eq!(holder.check(0, 8), Step::Wait);
    /// let Some(Message::Ask(wanted)) = holder.poll(0) else { return Err("asks".into()) };
    /// assert_eq!(holder.wakes_us(), None);
    /// let (states, now) = ([State::Empty], Timestamp::from_micros(1_700_000_000_000_000));
    /// let granted = grant(limits.iter().zip(&states), &mut [Change::KEEP], now, wanted);
    /// holder.on_reply(700, &granted.ok_or("no limit")?);
    /// assert!(holder.wakes_us().is_some_and(|wakes_us| wakes_us < 1_000_000)); // a lease's life
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wakes_us(&self) -> Option<u64> {
        self.held.ends_us().map(|ends_us| ends_us.min(self.demand.stops_us()))
    }
}
