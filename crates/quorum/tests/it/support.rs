//! What several tests need.

use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::StoreOptions;
use tidegate::{
    Decision, KeyedLimit, Limit, Mode, Op, Scope, Store, StoreError, StoreRequest, Timestamp,
};
use tidegate_quorum::QuorumDriver;
use tidegate_testkit::processes::{DEADLINE, RedisServer};

/// Three servers, which keep nothing over a restart.
pub(crate) struct Trio(pub(crate) [RedisServer; 3]);

impl Trio {
    pub(crate) fn start() -> Self {
        Self([(); 3].map(|()| RedisServer::start()))
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+quorum://{}", self.0.each_ref().map(RedisServer::address).join(","))
    }

    /// A store as of one more node.
    pub(crate) fn store(&self, options: &StoreOptions) -> Arc<dyn Store> {
        Arc::new(QuorumDriver::store(&self.url(), options).unwrap())
    }
}

pub(crate) fn options() -> StoreOptions {
    let deadline = DEADLINE;
    StoreOptions { deadline, announces: false, breaker: None, ..StoreOptions::default() }
}

pub(crate) fn within(deadline: Duration) -> StoreOptions {
    StoreOptions { deadline, ..options() }
}

/// Takes one unit of a limit.
pub(crate) async fn take(
    store: &dyn Store,
    limit: &str,
    key: &str,
) -> Result<Decision, StoreError> {
    ask(store, limit, key, Op::Take).await
}

/// What has been spent of a limit.
pub(crate) async fn spent(store: &dyn Store, limit: &str, key: &str) -> u64 {
    let decision = ask(store, limit, key, Op::Peek).await.unwrap();
    decision.limit() - decision.remaining()
}

pub(crate) async fn ask(
    store: &dyn Store,
    limit: &str,
    key: &str,
    op: Op,
) -> Result<Decision, StoreError> {
    let (limit, scope): (Limit, _) = (limit.parse().unwrap(), Scope::named("api", ""));
    let limits = [KeyedLimit { scope: &scope, key: key.as_bytes(), limit: &limit }];
    let cost = u64::from(op == Op::Take);
    let request = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
    store.decide(&request, Timestamp::EPOCH).await.map(|reply| reply.verdict.decision)
}

/// Repeats until it succeeds.
pub(crate) async fn until_ok<T>(mut attempt: impl AsyncFnMut() -> Result<T, StoreError>) -> T {
    let tried = tokio::time::timeout(4 * DEADLINE, async {
        loop {
            match attempt().await {
                Ok(done) => return done,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    });
    tried.await.expect("it never succeeded")
}
