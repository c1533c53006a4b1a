//! What several tests need.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_credential_types::Credentials;
use tidegate::driver::StoreOptions;
use tidegate::{
    Decision, KeyedLimit, Limit, Mode, Op, Scope, Store, StoreError, StoreRequest, Timestamp,
};
use tidegate_dynamodb::{DynamoDbDriver, DynamoDbStore};
use tidegate_testkit::processes::{DynamoDbServer, Imitation};

/// The imitations answer slowly, and the machine may be busy.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_mins(5);

pub(crate) const TABLE: &str = "tidegate";

/// Shared by all tests that do not fault it.
pub(crate) fn moto() -> &'static DynamoDbServer {
    static SERVER: LazyLock<DynamoDbServer> =
        LazyLock::new(|| DynamoDbServer::start(Imitation::Moto));
    &SERVER
}

/// The same.
pub(crate) fn dynalite() -> &'static DynamoDbServer {
    static SERVER: LazyLock<DynamoDbServer> =
        LazyLock::new(|| DynamoDbServer::start(Imitation::Dynalite));
    &SERVER
}

/// Keys of a test's own.
pub(crate) fn options() -> StoreOptions {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let key_prefix = format!("test-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    StoreOptions { key_prefix, deadline: LONG_TIMEOUT, announces: false, ..StoreOptions::default() }
}

pub(crate) fn credentials(key: &str, secret: &str) -> Credentials {
    Credentials::new(key, secret, None, None, "tests")
}

pub(crate) fn open(url: &str, options: &StoreOptions) -> Arc<DynamoDbStore> {
    let credentials = credentials("AKIATESTS", "secret");
    Arc::new(DynamoDbDriver::store_with(url, options, credentials).unwrap())
}

/// The same, with its table made.
pub(crate) async fn open_table(url: &str, options: &StoreOptions) -> Arc<DynamoDbStore> {
    let store = open(url, options);
    store.backend().create_table().await.unwrap();
    store
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

/// Takes one unit of `10/day` on each of two identifiers, or of none.
pub(crate) async fn take_both(store: &dyn Store, keys: [&str; 2]) -> Result<Decision, StoreError> {
    let limit: Limit = "10/day".parse().unwrap();
    let scopes = [Scope::together("pay", "a"), Scope::together("pay", "b")];
    let keyed = |n: usize| KeyedLimit { scope: &scopes[n], key: keys[n].as_bytes(), limit: &limit };
    let limits = [keyed(0), keyed(1)];
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost: 1, op: Op::Take };
    store.decide(&request, Timestamp::EPOCH).await.map(|reply| reply.verdict.decision)
}
