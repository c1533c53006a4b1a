//! A store as its operators see it: what it holds, how it does, whether it is left alone.

use std::sync::Arc;

use tidegate::{BreakerState, MemoryStats, MemoryStore, Store};
use tidegate_redis::{CallTimes, RedisStats, RedisStore};

/// A store that was opened, and what can be told of it beside answers.
#[derive(Clone, Debug)]
pub enum View {
    Memory(Arc<MemoryStore>),
    Redis(Arc<RedisStore>),
}

impl View {
    /// The store itself, for those who ask it.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Redis(store) => store.clone(),
        }
    }

    /// The kind of store, as people call it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis(_) => "redis",
        }
    }

    /// How it does, as far as is known without asking it.
    pub fn condition(&self) -> &'static str {
        let is_left_alone = self.breaker().is_some_and(|(state, _)| state != BreakerState::Closed);
        let is_connected = |(stats, _): (RedisStats, _)| stats.connects > stats.disconnects;
        match self.redis() {
            _ if is_left_alone => "left-alone",
            Some(redis) if !is_connected(redis) => "not-connected",
            _ => "ok",
        }
    }

    pub fn memory(&self) -> Option<MemoryStats> {
        match self {
            Self::Memory(store) => Some(store.stats()),
            Self::Redis(_) => None,
        }
    }

    pub fn redis(&self) -> Option<(RedisStats, CallTimes)> {
        match self {
            Self::Memory(_) => None,
            Self::Redis(store) => Some((store.stats(), store.call_times())),
        }
    }

    /// What the breakers of all nodes do, the worst of them, and how often they have opened.
    pub fn breaker(&self) -> Option<(BreakerState, u64)> {
        let Self::Redis(store) = self else { return None };
        let breakers = store.breakers();
        let is = |state| breakers.iter().any(|breaker| breaker.state == state);
        let worst =
            [BreakerState::Open, BreakerState::Probing].into_iter().find(|state| is(*state));
        let opened = breakers.iter().map(|breaker| breaker.opened_total).sum();
        Some((worst.unwrap_or(BreakerState::Closed), opened))
    }
}
