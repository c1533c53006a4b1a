//! An ask that waits before it is asked, or may be asked again: it borrows nothing.

use tidegate_core::{Limit, Mode};

use super::{Ask, KeyedLimit, Op, Scope};

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
