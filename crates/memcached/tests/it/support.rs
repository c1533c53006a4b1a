//! What several tests need.

use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::StoreOptions;
use tidegate::{
    Decision, KeyedLimit, Limit, Mode, Op, Scope, Store, StoreError, StoreRequest, Timestamp,
};
use tidegate_memcached::{MemcachedDriver, MemcachedStore};

pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) fn options() -> StoreOptions {
    let deadline = LONG_TIMEOUT;
    StoreOptions { deadline, announces: false, breaker: None, ..StoreOptions::default() }
}

pub(crate) fn open(url: &str, options: &StoreOptions) -> Arc<MemcachedStore> {
    Arc::new(MemcachedDriver::store(url, options).unwrap())
}

/// Takes one unit of a limit.
pub(crate) async fn take(
    store: &dyn Store,
    limit: &str,
    key: &str,
) -> Result<Decision, StoreError> {
    let (limit, scope): (Limit, _) = (limit.parse().unwrap(), Scope::named("api", ""));
    let limits = [KeyedLimit { scope: &scope, key: key.as_bytes(), limit: &limit }];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    store.decide(&request, Timestamp::EPOCH).await.map(|reply| reply.verdict.decision)
}
