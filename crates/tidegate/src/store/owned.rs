//! A request that waits before it is asked, or may be asked again: it borrows nothing.

use tidegate_core::{Limit, Mode};

#[cfg(feature = "redis")]
use super::{Charge, LimitCharge, MultiCharge};
use super::{KeyedLimit, Op, Scope, StoreRequest};

#[derive(Debug)]
pub(super) struct OwnedRequest {
    mode: Mode,
    limits: Vec<(Scope, Box<[u8]>, Limit)>,
    cost: u64,
    op: Op,
}

impl OwnedRequest {
    pub(super) fn from_request(request: &StoreRequest<'_>) -> Self {
        let owned = |it: &KeyedLimit<'_>| (it.scope.clone(), it.key.into(), it.limit.clone());
        let limits = request.limits.iter().map(owned).collect();
        Self { mode: request.mode, limits, cost: request.cost, op: request.op }
    }

    pub(super) fn with<R>(&self, then: impl FnOnce(&StoreRequest<'_>) -> R) -> R {
        let limits = self.limits.iter().map(|(scope, key, limit)| KeyedLimit { scope, key, limit });
        let limits: Vec<_> = limits.collect();
        then(&StoreRequest { mode: self.mode, limits: &limits, cost: self.cost, op: self.op })
    }
}

/// The same of several limits with costs of their own.
#[cfg(feature = "redis")]
#[derive(Debug)]
pub(super) struct OwnedMultiCharge {
    limits: Vec<(Scope, Box<[u8]>, Limit, u64)>,
    charge: Charge,
}

#[cfg(feature = "redis")]
impl OwnedMultiCharge {
    pub(super) fn from_charges(charges: &MultiCharge<'_>) -> Self {
        let owned = |LimitCharge { keyed, cost }: &LimitCharge<'_>| {
            (keyed.scope.clone(), keyed.key.into(), keyed.limit.clone(), *cost)
        };
        Self { limits: charges.limits.iter().map(owned).collect(), charge: charges.charge }
    }

    pub(super) fn with<R>(&self, then: impl FnOnce(&MultiCharge<'_>) -> R) -> R {
        let limits = self.limits.iter();
        let limits = limits.map(|(scope, key, limit, cost)| LimitCharge {
            keyed: KeyedLimit { scope, key, limit },
            cost: *cost,
        });
        let limits: Vec<_> = limits.collect();
        then(&MultiCharge { limits: &limits, charge: self.charge })
    }
}
