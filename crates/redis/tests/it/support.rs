//! What tests of the Redis store have in common: a store, one question, many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::{
    KeyedLimit, Limit, Mode, Op, Ran, Scope, Store, StoreError, StoreReply, StoreRequest, Timestamp,
};
use tidegate_redis::{RedisOptions, RedisStore};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A deadline that tests do not reach.
pub(crate) const LONG_TIMEOUT: Duration = Duration::from_secs(20);

/// A limit that gains nothing while a test runs.
pub(crate) fn limit_of(count: u64) -> Limit {
    format!("{count}/3650day").parse().unwrap()
}

pub(crate) fn store(url: impl Into<String>, deadline: Duration) -> Arc<RedisStore> {
    Arc::new(RedisStore::new(RedisOptions { deadline, ..RedisOptions::new(url) }).unwrap())
}

/// One question about one key; it is sent when this returns.
pub(crate) fn ask(
    store: &RedisStore,
    key: &str,
    limit: &Limit,
    op: Op,
) -> impl Future<Output = Result<StoreReply, StoreError>> + Send + 'static {
    ask_in(store, "test", key, limit, op)
}

/// The same for another policy: its keys are others, in the same slot.
pub(crate) fn ask_in(
    store: &RedisStore,
    policy: &str,
    key: &str,
    limit: &Limit,
    op: Op,
) -> impl Future<Output = Result<StoreReply, StoreError>> + Send + 'static {
    let scope = Scope::named(policy, "");
    let limits = [KeyedLimit { scope: &scope, key: key.as_bytes(), limit }];
    let cost = u64::from(op != Op::Peek);
    let ask = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
    store.decide(&ask, Timestamp::from_micros(1_700_000_000_000_000))
}

pub(crate) async fn take(store: &RedisStore, key: &str, limit: &Limit) -> Result<bool, StoreError> {
    ask(store, key, limit, Op::Take).await.map(|reply| reply.verdict.decision.allowed())
}

/// What has been spent of a key.
pub(crate) async fn spent(store: &RedisStore, key: &str, limit: &Limit) -> u64 {
    let reply = ask(store, key, limit, Op::Peek).await.unwrap();
    limit.ceiling() - reply.verdict.decision.remaining()
}

/// Asks until there is an answer; panics if there is none for long.
pub(crate) async fn until_answered(store: &RedisStore) {
    let answered = async {
        while ask(store, "until", &limit_of(1), Op::Peek).await.is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, answered).await.expect("the store does not heal");
}

/// The outcomes of requests from several tasks, one after another each.
#[derive(Default, Debug)]
pub(crate) struct Outcomes {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) unknown: u64,
    pub(crate) not_run: u64,
    pub(crate) longest: Duration,
}

/// Sends requests from several tasks until it is stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Outcomes>>,
}

impl Load {
    pub(crate) fn start(store: &Arc<RedisStore>, key: &'static str, limit: &Limit) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asker = |_| {
            let (store, limit, stop) = (store.clone(), limit.clone(), stop.clone());
            tokio::spawn(async move {
                let mut outcomes = Outcomes::default();
                while !stop.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    match take(&store, key, &limit).await {
                        Ok(true) => outcomes.admitted += 1,
                        Ok(false) => outcomes.refused += 1,
                        Err(error) if error.ran() == Ran::Unknown => outcomes.unknown += 1,
                        Err(_) => {
                            outcomes.not_run += 1;
                            // Failing at once, it would keep the processor from those who work.
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    }
                    outcomes.longest = outcomes.longest.max(start.elapsed());
                }
                outcomes
            })
        };
        let tasks = (0..16).map(asker).collect();
        Self { stop, tasks }
    }

    /// Until so many more questions have been asked.
    pub(crate) async fn asks(&self, store: &RedisStore, more: u64) {
        until_asked(store, more).await;
    }

    pub(crate) async fn end(self) -> Outcomes {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Outcomes::default();
        for task in self.tasks {
            let outcomes = task.await.unwrap();
            sum.admitted += outcomes.admitted;
            sum.refused += outcomes.refused;
            sum.unknown += outcomes.unknown;
            sum.not_run += outcomes.not_run;
            sum.longest = sum.longest.max(outcomes.longest);
        }
        sum
    }
}

/// Until the store has been asked so many more questions.
pub(crate) async fn until_asked(store: &RedisStore, more: u64) {
    let enough = store.stats().requests + more;
    let asked = async {
        while store.stats().requests < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LONG_TIMEOUT, asked).await.expect("questions are not asked any more");
}
