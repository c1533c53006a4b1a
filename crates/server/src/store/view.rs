//! A store as its operators see it: what it holds, how it does, whether it is left alone.

use std::sync::Arc;

use tidegate::{
    Breaker, BreakerState, CallTimes, MemoryStats, MemoryStore, RedisStats, RedisStore, Store,
};

/// A store that was opened, and what can be told of it beside answers.
#[derive(Clone, Debug)]
pub(crate) enum View {
    Memory(Arc<MemoryStore>),
    Redis { store: Arc<RedisStore>, breaker: Option<Breaker<Arc<RedisStore>>> },
}

impl View {
    /// The store itself, for those who ask it.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::Redis { breaker: Some(breaker), .. } => Arc::new(breaker.clone()),
            Self::Redis { store, breaker: None } => store.clone(),
        }
    }

    /// The kind of store, as people call it.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Redis { .. } => "redis",
        }
    }

    /// How it does, as far as is known without asking it.
    pub(crate) fn condition(&self) -> &'static str {
        let is_left_alone = self.breaker().is_some_and(|(state, _)| state != BreakerState::Closed);
        let is_connected = |(stats, _): (RedisStats, _)| stats.connects > stats.disconnects;
        match self.redis() {
            _ if is_left_alone => "left-alone",
            Some(redis) if !is_connected(redis) => "not-connected",
            _ => "ok",
        }
    }

    pub(crate) fn memory(&self) -> Option<MemoryStats> {
        match self {
            Self::Memory(store) => Some(store.stats()),
            Self::Redis { .. } => None,
        }
    }

    pub(crate) fn redis(&self) -> Option<(RedisStats, CallTimes)> {
        match self {
            Self::Memory(_) => None,
            Self::Redis { store, .. } => Some((store.stats(), store.call_times())),
        }
    }

    /// What the breaker does, and how often it has opened.
    pub(crate) fn breaker(&self) -> Option<(BreakerState, u64)> {
        match self {
            Self::Redis { breaker: Some(breaker), .. } => {
                Some((breaker.state(), breaker.opened_total()))
            }
            Self::Memory(_) | Self::Redis { .. } => None,
        }
    }
}
