//! Sliding window: counters in slots, the leaving slot weighed by what is left of it.

use std::time::Duration;

use super::lease::window_ttl_us;
use super::pace::{check_rate, product_fits};
use super::{LimitAlgorithm, Return, Term, write_numbers};
use crate::decision::Decision;
use crate::error::{LeaseError, LimitError};
use crate::spec::{Amount, Description, Field, Grammar, LimitSpec, Period};
use crate::state::{Change, SlotChange, Slots, State};
use crate::time::{Timestamp, micros_up};

/// `limit` units per sliding `period`, counted in `buckets` slots plus the one that is leaving.
///
/// An estimate: exact over any `(buckets − 1) × width`, and in the worst case up to 2 × `limit` in one
/// period. `buckets: 1` is the classic estimator of two counters. For an exact window, see
/// [`SlidingLog`](crate::SlidingLog).
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Limit, SlidingWindow, State, Timestamp};
///
/// let window = SlidingWindow::new(100, Duration::from_secs(60), 10)?;
/// assert_eq!((window.limit(), window.period()), (100, Duration::from_secs(60)));
/// assert_eq!(window.buckets(), 10);
///
/// let limit: Limit = window.into();
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// assert_eq!(limit.take(&mut state, now, 60).remaining(), 40);
/// let later = now + Duration::from_secs(61);
/// assert!(limit.take(&mut state, later, 60).allowed());
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SlidingWindow {
    limit: u64,
    buckets: u64,
    width_us: u64,
}

/// The slots as of one decision: which slot is current, how far into it, and what counts.
struct View<'a> {
    slots: Option<&'a Slots>,
    /// Everything counted lies in this one slot, because the state was repaired.
    repaired: Option<u64>,
    current: u64,
    elapsed_us: u64,
}

pub(crate) const GRAMMAR: Grammar<SlidingWindow> = Grammar {
    description: Description {
        name: "sliding-window",
        summary: "Counters in slots that slide: an estimate, in the worst case almost twice the limit in a period.",
        fields: &[Field::Limit, Field::Buckets],
    },
    build: |spec, _| {
        let (limit, period) = spec.rate(Field::Limit)?;
        let buckets = spec.buckets.unwrap_or(SlidingWindow::DEFAULT_BUCKETS);
        SlidingWindow::new(limit, period, buckets).map_err(|error| spec.invalid(error))
    },
    spec: |limit| LimitSpec {
        limit: Some(Amount::Rate(limit.limit, Period::from_rate(limit.period()))),
        buckets: Some(limit.buckets),
        ..LimitSpec::default()
    },
};

impl SlidingWindow {
    /// The buckets of a window that names no number.
    pub const DEFAULT_BUCKETS: u64 = 10;

    /// `limit` units per `period` in `buckets` slots, which must divide the period.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{LimitError, SlidingWindow};
    /// let second = Duration::from_secs(1);
    /// assert!(SlidingWindow::new(100, second, SlidingWindow::DEFAULT_BUCKETS).is_ok());
    /// let thirds = SlidingWindow::new(100, second, 3);
    /// assert_eq!(thirds, Err(LimitError::BucketsDoNotDivide { buckets: 3, period_us: 1_000_000 }));
    /// ```
    pub fn new(limit: u64, period: Duration, buckets: u64) -> Result<Self, LimitError> {
        let period_us = micros_up(period);
        check_rate(limit, period_us)?;
        if !(1..=1000).contains(&buckets) {
            return Err(LimitError::Buckets(buckets));
        }
        if !period_us.is_multiple_of(buckets) {
            return Err(LimitError::BucketsDoNotDivide { buckets, period_us });
        }
        let width_us = period_us / buckets;
        if !product_fits(limit, width_us) {
            return Err(LimitError::SlidingWindowInexact { limit, width_us });
        }
        Ok(Self { limit, buckets, width_us })
    }

    /// Units per period.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period that slides.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.width_us * self.buckets)
    }

    /// A unit counts until its slot has left: a period after the slot has ended.
    pub(crate) const fn state_life_max(&self) -> Duration {
        Duration::from_micros(self.width_us * (self.buckets + 1))
    }

    /// How many slots the period is counted in.
    pub const fn buckets(&self) -> u64 {
        self.buckets
    }

    /// What counts at `now`, times the slot width in µs: the estimate of the requests in the last period
    /// without its fraction rounded away.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Limit, SlidingWindow, State, Timestamp};
    /// let window = SlidingWindow::new(100, Duration::from_secs(60), 10)?;
    /// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
    /// let _ = Limit::from(window).take(&mut state, now, 60);
    /// // A period later, a third of the slot has left, and with it a third of what it counts.
    /// let (estimate, width_us) = window.estimate_times_width(&state, now + window.period());
    /// assert_eq!(estimate, 40 * width_us);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn estimate_times_width(&self, state: &State, now: Timestamp) -> (u64, u64) {
        let view = self.view(state, now);
        (self.used(&view), self.width_us)
    }

    fn change(&self, view: &View<'_>, add: u64) -> SlotChange {
        SlotChange {
            width_us: self.width_us,
            slots: self.buckets + 1,
            current: view.current,
            gather: view.repaired,
            add,
            take: 0,
            take_from: None,
        }
    }

    fn view<'a>(&self, state: &'a State, now: Timestamp) -> View<'a> {
        let current = now.as_micros() / self.width_us;
        let elapsed_us = now.as_micros() % self.width_us;
        let fresh = View { slots: None, repaired: None, current, elapsed_us };
        let State::Slots(slots) = state else { return fresh };
        let foreign = slots.width_us != self.width_us || slots.len() != self.buckets + 1;
        if foreign {
            // Another geometry: what still counted under the old one counts as of now.
            let counted = slots.counted_at(now).min(self.limit);
            return View { repaired: Some(counted), ..fresh };
        }
        if slots.newest > current + self.buckets {
            return View { repaired: Some(slots.total().min(self.limit)), ..fresh };
        }
        if slots.newest > current {
            // The clock stepped back a little: decide as of the newest slot's start.
            return View { slots: Some(slots), current: slots.newest, elapsed_us: 0, ..fresh };
        }
        View { slots: Some(slots), ..fresh }
    }

    /// What slot `index` holds.
    fn slot(view: &View<'_>, index: u64) -> u64 {
        match view.repaired {
            Some(counted) if index == view.current => counted,
            Some(_) => 0,
            None => view.slots.map_or(0, |slots| slots.get(index)),
        }
    }

    /// The sum of all slots but the one that is leaving.
    fn full_slots(&self, view: &View<'_>) -> u64 {
        let first = (view.current + 1).saturating_sub(self.buckets);
        let counted = || view.slots.map_or(0, |slots| slots.sum(first, view.current));
        view.repaired.unwrap_or_else(counted)
    }

    /// The slot that is leaving while `last` is current.
    fn leaving(&self, view: &View<'_>, last: u64) -> u64 {
        last.checked_sub(self.buckets).map_or(0, |index| Self::slot(view, index))
    }

    fn used(&self, view: &View<'_>) -> u64 {
        let full = self.full_slots(view).saturating_mul(self.width_us);
        let leaving = self.leaving(view, view.current);
        full.saturating_add(leaving.saturating_mul(self.width_us - view.elapsed_us))
    }

    fn newest_counted(&self, view: &View<'_>) -> Option<u64> {
        let oldest = view.current.saturating_sub(self.buckets);
        (oldest..=view.current).rev().find(|index| Self::slot(view, *index) > 0)
    }

    /// Walks the coming slots, and in the first that can admit solves its line for the first µs.
    fn retry(&self, view: &View<'_>, now: Timestamp, cost: u64) -> Option<u64> {
        if cost > self.limit {
            return None;
        }
        let target = (self.limit - cost) * self.width_us;
        let mut full = self.full_slots(view);
        for current in view.current..=view.current + self.buckets + 1 {
            let leaving = self.leaving(view, current);
            if current > view.current {
                full = full.saturating_sub(leaving);
            }
            let full_us = full.saturating_mul(self.width_us);
            let Some(room) = target.checked_sub(full_us) else { continue };
            // leaving × (width − e) ≤ room, for the smallest whole e.
            let elapsed = match leaving {
                0 => 0,
                _ => self.width_us.saturating_sub(room / leaving),
            };
            let at = current * self.width_us + elapsed;
            return Some(at.saturating_sub(now.as_micros()));
        }
        // Not reached: a slot later nothing counts any more, and the cost is within the limit.
        None
    }
}

impl LimitAlgorithm for SlidingWindow {
    fn units(&self) -> u64 {
        self.limit
    }

    fn state_letter(&self) -> char {
        's'
    }

    /// Every slot is read and written.
    fn script_work(&self) -> u64 {
        1 + self.buckets / 8
    }

    fn write_script(&self, _: Timestamp, out: &mut String) {
        write_numbers(out, "slots", &[self.limit, self.buckets, self.width_us]);
    }

    fn with_units(&self, units: u64) -> Self {
        Self { limit: units, ..*self }
    }

    fn plan(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change) {
        let view = self.view(state, now);
        let left = (self.limit * self.width_us).saturating_sub(self.used(&view));
        // A cost above the limit is refused before any product is formed, so none can overflow.
        let admits = cost == 0 || (cost <= self.limit && cost * self.width_us <= left);
        let added = if admits { cost } else { 0 };
        let newest = if added > 0 { Some(view.current) } else { self.newest_counted(&view) };
        let reset_after_us = newest.map_or(0, |slot| {
            ((slot + self.buckets + 1) * self.width_us).saturating_sub(now.as_micros())
        });
        let remaining = (left - added * self.width_us) / self.width_us;
        let decision = if admits {
            Decision::admitted(self.limit, remaining, reset_after_us)
        } else {
            let retry = self.retry(&view, now, cost);
            Decision::refused(self.limit, remaining, retry, reset_after_us)
        };
        if added == 0 && view.repaired.is_none() {
            return (decision, Change::KEEP);
        }
        (decision, Change::slots(self.change(&view, added)))
    }

    /// Gives back the newest units first.
    fn refund(&self, state: &State, now: Timestamp, amount: u64) -> Change {
        let view = self.view(state, now);
        let mut change = self.change(&view, 0);
        change.take = amount;
        Change::slots(change)
    }

    /// At most one slot: a lease that ends with its slot costs nothing of the limit.
    fn lease_ttl_us(&self) -> Result<u64, LeaseError> {
        Ok(window_ttl_us(self.period()).min(self.width_us))
    }

    /// A lease ends with the slot that pays for it, so that every slot holds what was admitted in it.
    fn term(&self, state: &State, now: Timestamp) -> Term {
        let current = self.view(state, now).current;
        let ends_after_us = ((current + 1) * self.width_us).saturating_sub(now.as_micros());
        Term { ends_after_us, returnable: current == now.as_micros() / self.width_us }
    }

    /// Units come back to the slot that paid for them, if the ring still has it.
    fn give_back(&self, state: &State, now: Timestamp, back: Return) -> Change {
        let view = self.view(state, now);
        let slot = back.granted_at.as_micros() / self.width_us;
        let in_ring = (view.current.saturating_sub(self.buckets)..=view.current).contains(&slot);
        if view.repaired.is_some() || !in_ring {
            return Change::KEEP;
        }
        Change::slots(SlotChange {
            take: back.units,
            take_from: Some(slot),
            ..self.change(&view, 0)
        })
    }
}
