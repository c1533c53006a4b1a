//! The overrides that one policy has got at run time: replaced as a whole, and one load of a flag while there are none.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use tidegate_core::Limit;

use super::Overrides;
use crate::clock::Clock;
use crate::engine::BindingLimit;
use crate::policy::{Instead, Override};

#[derive(Debug, Default)]
pub(crate) struct AtRunTime {
    any: AtomicBool,
    by_key: RwLock<Overrides<Timed>>,
}

/// An override that may end.
#[derive(Debug)]
pub(crate) struct Timed {
    instead: Shared,
    /// By the steady clock.
    until_us: Option<u64>,
}

/// The limit is shared with the answers that it bound, since the table may be replaced under them.
#[derive(Clone, Debug)]
enum Shared {
    Limit(Arc<Limit>),
    Allow,
    Block,
}

impl Timed {
    pub(crate) fn new(instead: Override, until_us: Option<u64>) -> Self {
        let instead = match instead {
            Override::Limit(limit) => Shared::Limit(Arc::new(limit)),
            Override::Allow => Shared::Allow,
            Override::Block => Shared::Block,
        };
        Self { instead, until_us }
    }
}

impl AtRunTime {
    /// What a key gets.
    #[inline]
    pub(crate) fn get(&self, key: &[u8], clock: &impl Clock) -> Option<Instead<'static>> {
        if self.any.load(Relaxed) { self.find(key, clock) } else { None }
    }

    fn find(&self, key: &[u8], clock: &impl Clock) -> Option<Instead<'static>> {
        let by_key = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        let holds = |it: &Timed| it.until_us.is_none_or(|until_us| clock.steady_us() < until_us);
        by_key.find(key, holds).map(|it| match &it.instead {
            Shared::Limit(limit) => Instead::Limit(BindingLimit::shared(limit.clone())),
            Shared::Allow => Instead::Allow,
            Shared::Block => Instead::Block,
        })
    }

    pub(crate) fn replace(&self, by_key: Overrides<Timed>) {
        let any = !by_key.is_empty();
        let before = {
            let mut place = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *place, by_key)
        };
        self.any.store(any, Relaxed);
        drop(before); // it may be large, and nobody has to wait for that
    }
}
