//! Requests that borrow nothing: they wait, or are sent again.

use tidegate_core::{Limit, Mode};

use super::{Charge, LimitCharge, MultiCharge};
use super::{KeyedLimit, Op, Scope, StoreRequest};

/// A [`StoreRequest`] that borrows nothing.
///
/// ```
/// use tidegate::store_kit::OwnedRequest;
/// use tidegate::{Mode, Op, StoreRequest};
///
/// let request = StoreRequest { mode: Mode::All, limits: &[], cost: 3, op: Op::Take };
/// let owned = OwnedRequest::from_request(&request);
/// assert_eq!(owned.with(|request| request.cost), 3);
/// ```
#[derive(Debug)]
pub struct OwnedRequest {
    mode: Mode,
    limits: Vec<(Scope, Box<[u8]>, Limit)>,
    cost: u64,
    op: Op,
}

impl OwnedRequest {
    /// Copies the request.
    pub fn from_request(request: &StoreRequest<'_>) -> Self {
        let owned = |it: &KeyedLimit<'_>| (it.scope.clone(), it.key.into(), it.limit.clone());
        let limits = request.limits.iter().map(owned).collect();
        Self { mode: request.mode, limits, cost: request.cost, op: request.op }
    }

    /// Lends it to `then`.
    pub fn with<R>(&self, then: impl FnOnce(&StoreRequest<'_>) -> R) -> R {
        let Self { mode, limits, cost, op } = self;
        let (mode, cost, op) = (*mode, *cost, *op);
        // Most requests have one limit, and need no list of them.
        if let [(scope, key, limit)] = &**limits {
            return then(&StoreRequest {
                mode,
                limits: &[KeyedLimit { scope, key, limit }],
                cost,
                op,
            });
        }
        let limits = limits.iter().map(|(scope, key, limit)| KeyedLimit { scope, key, limit });
        let limits: Vec<_> = limits.collect();
        then(&StoreRequest { mode, limits: &limits, cost, op })
    }
}

/// A [`MultiCharge`] that borrows nothing.
///
/// ```
/// use tidegate::store_kit::OwnedMultiCharge;
/// use tidegate::{Charge, MultiCharge};
///
/// let owned = OwnedMultiCharge::from_charges(&MultiCharge { limits: &[], charge: Charge::Never });
/// assert_eq!(owned.with(|charges| charges.charge), Charge::Never);
/// ```
#[derive(Debug)]
pub struct OwnedMultiCharge {
    limits: Vec<(Scope, Box<[u8]>, Limit, u64)>,
    charge: Charge,
}

impl OwnedMultiCharge {
    /// Copies the charges.
    pub fn from_charges(charges: &MultiCharge<'_>) -> Self {
        let owned = |LimitCharge { keyed, cost }: &LimitCharge<'_>| {
            (keyed.scope.clone(), keyed.key.into(), keyed.limit.clone(), *cost)
        };
        Self { limits: charges.limits.iter().map(owned).collect(), charge: charges.charge }
    }

    /// Lends it to `then`.
    pub fn with<R>(&self, then: impl FnOnce(&MultiCharge<'_>) -> R) -> R {
        let limits = self.limits.iter();
        let limits = limits.map(|(scope, key, limit, cost)| LimitCharge {
            keyed: KeyedLimit { scope, key, limit },
            cost: *cost,
        });
        let limits: Vec<_> = limits.collect();
        then(&MultiCharge { limits: &limits, charge: self.charge })
    }
}
