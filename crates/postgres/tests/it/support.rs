//! What several tests need.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tidegate::driver::StoreOptions;
use tidegate::{
    Decision, KeyedLimit, Limit, Mode, Op, Scope, Store, StoreError, StoreRequest, Timestamp,
};
use tidegate_postgres::{PostgresDriver, PostgresStore};
use tidegate_testkit::processes::PostgresServer;

pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(20);

/// A server that all tests share that do not fault it.
pub(crate) fn shared_server() -> &'static PostgresServer {
    static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);
    &SERVER
}

pub(crate) fn options(key_prefix: &str) -> StoreOptions {
    let (key_prefix, deadline) = (key_prefix.to_owned(), LONG_TIMEOUT);
    StoreOptions { key_prefix, deadline, announces: false, ..StoreOptions::default() }
}

pub(crate) fn open(url: &str, options: &StoreOptions) -> Arc<PostgresStore> {
    Arc::new(PostgresDriver::store(url, options).unwrap())
}

/// Runs what blocks, like the restart of a server, while the other tasks go on.
pub(crate) fn blocking<T>(run: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(run)
}

/// Takes one unit of a limit.
pub(crate) async fn take(
    store: &dyn Store,
    limit: &str,
    key: &str,
) -> Result<Decision, StoreError> {
    ask(store, limit, key, Op::Take).await
}

/// Spends nothing.
pub(crate) async fn peek(
    store: &dyn Store,
    limit: &str,
    key: &str,
) -> Result<Decision, StoreError> {
    ask(store, limit, key, Op::Peek).await
}

async fn ask(store: &dyn Store, limit: &str, key: &str, op: Op) -> Result<Decision, StoreError> {
    let (limit, scope): (Limit, _) = (limit.parse().unwrap(), Scope::named("api", ""));
    let limits = [KeyedLimit { scope: &scope, key: key.as_bytes(), limit: &limit }];
    let cost = u64::from(op != Op::Peek);
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
    store.decide(&request, Timestamp::EPOCH).await.map(|reply| reply.verdict.decision)
}
