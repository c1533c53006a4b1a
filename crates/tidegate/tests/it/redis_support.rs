//! What tests of the Redis store have in common: a store, one question, many at once.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Ask, KeyedLimit, Limit, Mode, Op, RedisOptions, RedisStore, Scope, Settled, Store, StoreError,
    Timestamp,
};

/// Where time is not what a test is about.
pub(crate) const PATIENT: Duration = Duration::from_secs(20);

/// A limit that gains nothing while a test runs.
pub(crate) fn limit_of(count: u64) -> Limit {
    format!("{count}/3650day").parse().unwrap()
}

pub(crate) fn store(url: impl Into<String>, deadline: Duration) -> Arc<RedisStore> {
    Arc::new(RedisStore::new(RedisOptions { deadline, ..RedisOptions::new(url) }).unwrap())
}

/// One question about one key; it is under way when this returns.
pub(crate) fn ask(
    store: &RedisStore,
    key: &str,
    limit: &Limit,
    op: Op,
) -> impl Future<Output = Result<Settled, StoreError>> + Send + 'static {
    let scope = Scope::named("test", "");
    let limits = [KeyedLimit { scope: &scope, key: key.as_bytes(), limit }];
    let cost = u64::from(op != Op::Peek);
    let ask = Ask { mode: Mode::All, limits: &limits, cost, op };
    store.answer(&ask, Timestamp::from_micros(1_700_000_000_000_000))
}

pub(crate) async fn take(store: &RedisStore, key: &str, limit: &Limit) -> Result<bool, StoreError> {
    ask(store, key, limit, Op::Take).await.map(|settled| settled.verdict.decision.allowed())
}

/// What has been spent of a key.
pub(crate) async fn spent(store: &RedisStore, key: &str, limit: &Limit) -> u64 {
    let settled = ask(store, key, limit, Op::Peek).await.unwrap();
    limit.ceiling() - settled.verdict.decision.remaining()
}

/// Asks until there is an answer; panics if there is none for long.
pub(crate) async fn until_answered(store: &RedisStore) {
    let answered = async {
        while ask(store, "until", &limit_of(1), Op::Peek).await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENT, answered).await.expect("the store does not heal");
}
