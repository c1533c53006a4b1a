//! Many questions from one read.

use tidegate::{Clock, Op, SystemClock, Timestamp};

use super::call::Timing;
use super::{Call, CheckService, InForce, steady_us};
use crate::metrics::Door;

/// Reading the clock costs as much as a decision: one question of this many is timed.
const TIMED_ONE_OF: u64 = 64;

/// Questions that were read together. The clock is read once for all of them.
pub(crate) struct Pipeline<'s> {
    service: &'s CheckService,
    in_force: &'s InForce,
    door: Door,
    since_us: u64,
    began: Timestamp,
    /// Earlier questions of the connection.
    before: u64,
    asked: u64,
}

impl<'s> Pipeline<'s> {
    /// `before` is the number of earlier questions of the connection.
    pub(crate) fn begin(
        service: &'s CheckService,
        in_force: &'s InForce,
        door: Door,
        before: u64,
    ) -> Self {
        let (since_us, began) = (steady_us(), SystemClock.now());
        Self { service, in_force, door, since_us, began, before, asked: 0 }
    }

    /// The next question.
    #[inline]
    pub(crate) fn call(&mut self, op: Op) -> Call<'s> {
        let spends = op == Op::Take;
        self.asked += u64::from(spends);
        let is_timed = spends && (self.before + self.asked).is_multiple_of(TIMED_ONE_OF);
        let (timing, since_us) =
            if is_timed { (Timing::OnlyPolicy, steady_us()) } else { (Timing::Nothing, 0) };
        Call {
            service: self.service,
            in_force: self.in_force,
            timing,
            since_us,
            began: self.began,
            timeout: None,
            is_shadow: false,
        }
    }

    pub(crate) const fn in_force(&self) -> &'s InForce {
        self.in_force
    }

    /// Records the time. Returns the number of questions of the connection.
    pub(crate) fn finish(self) -> u64 {
        if self.asked > 0 {
            self.service.metrics.door_took(self.door, self.since_us, self.asked);
        }
        self.before + self.asked
    }
}
