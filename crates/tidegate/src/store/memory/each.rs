//! Several limits in one atomic step, each with a cost of its own.

use tidegate_core::{Change, Decision, Timestamp, decide_each};

use super::MemoryStore;
use super::many::Held;
use crate::store::{Charge, MultiCharge, StoreError};

const MAX: usize = MultiCharge::MAX_LIMITS;

impl MemoryStore {
    pub(super) fn decide_together(
        &self,
        charges: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Result<Vec<Decision>, StoreError> {
        let limits = charges.checked_limits()?;
        let decide = |held: &mut [Held<'_>], wrote: &mut [bool]| {
            let parts = charges.limits.iter().zip(&*held);
            let parts = parts.map(|(take, held)| (take.keyed.limit, held.state(), take.cost));
            let mut decisions = vec![Decision::unlimited(); charges.limits.len()];
            let mut changes = [Change::KEEP; MAX];
            let refused = charges.charge == Charge::Refused;
            decide_each(parts, refused, &mut decisions, &mut changes, now);
            if charges.charge == Charge::IfAllAdmit {
                for ((held, change), wrote) in held.iter_mut().zip(changes).zip(wrote) {
                    held.state_mut().apply(change);
                    *wrote = change.writes();
                }
            }
            decisions
        };
        let same = || StoreError::bad_request("two keys share a fingerprint by chance");
        self.in_one_step::<MAX, _>(&limits, now, decide).ok_or_else(same)
    }
}
