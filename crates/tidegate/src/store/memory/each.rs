//! Several limits in one atomic step, each with a cost of its own.

use tidegate_core::{Decision, Timestamp};

use super::MemoryStore;
use super::many::Held;
use crate::store::held::decide_each_state;
use crate::store::{MultiCharge, StoreError};

const MAX: usize = MultiCharge::MAX_LIMITS;

impl MemoryStore {
    pub(super) fn decide_together(
        &self,
        charges: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Result<Vec<Decision>, StoreError> {
        let limits = charges.checked_limits()?;
        let decide = |held: &mut [Held<'_>], wrote: &mut [bool]| {
            decide_each_state(charges, held, wrote, now)
        };
        let same = || StoreError::bad_request("two keys share a fingerprint by chance");
        self.in_one_step::<MAX, _>(&limits, now, decide).ok_or_else(same)
    }
}
