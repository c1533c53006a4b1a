//! An ask that waits before it is asked, or may be asked again: it borrows nothing.

use tidegate_core::{Limit, Mode};

use super::{Ask, KeyedLimit, Op, Scope};
#[cfg(feature = "redis")]
use super::{Charge, Take, Takes};

#[derive(Debug)]
pub(super) struct OwnedAsk {
    mode: Mode,
    limits: Vec<(Scope, Box<[u8]>, Limit)>,
    cost: u64,
    op: Op,
}

impl OwnedAsk {
    pub(super) fn of(ask: &Ask<'_>) -> Self {
        let owned = |it: &KeyedLimit<'_>| (it.scope.clone(), it.key.into(), it.limit.clone());
        let limits = ask.limits.iter().map(owned).collect();
        Self { mode: ask.mode, limits, cost: ask.cost, op: ask.op }
    }

    pub(super) fn with<R>(&self, then: impl FnOnce(&Ask<'_>) -> R) -> R {
        let limits = self.limits.iter().map(|(scope, key, limit)| KeyedLimit { scope, key, limit });
        let limits: Vec<_> = limits.collect();
        then(&Ask { mode: self.mode, limits: &limits, cost: self.cost, op: self.op })
    }
}

/// The same of several limits with costs of their own.
#[cfg(feature = "redis")]
#[derive(Debug)]
pub(super) struct OwnedTakes {
    limits: Vec<(Scope, Box<[u8]>, Limit, u64)>,
    charge: Charge,
}

#[cfg(feature = "redis")]
impl OwnedTakes {
    pub(super) fn of(takes: &Takes<'_>) -> Self {
        let owned = |Take { keyed, cost }: &Take<'_>| {
            (keyed.scope.clone(), keyed.key.into(), keyed.limit.clone(), *cost)
        };
        Self { limits: takes.limits.iter().map(owned).collect(), charge: takes.charge }
    }

    pub(super) fn with<R>(&self, then: impl FnOnce(&Takes<'_>) -> R) -> R {
        let limits = self.limits.iter();
        let limits = limits.map(|(scope, key, limit, cost)| Take {
            keyed: KeyedLimit { scope, key, limit },
            cost: *cost,
        });
        let limits: Vec<_> = limits.collect();
        then(&Takes { limits: &limits, charge: self.charge })
    }
}
