//! Runs the scripts through the real client: every algorithm once, then timed checks.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Clock, KeyedLimit, LeakyBucket, Limit, Mode, Op, ReserveRequest, Scope, Store, StoreError,
    StoreErrorKind, StoreRequest, SystemClock,
};

use tidegate::driver::{Finding, Laps, StoreDriver, StoreOptions};
use tidegate_core::text::printable;

/// One of each kind of state.
const LIMITS: [&str; 6] = [
    "10/s",
    "fixed-window 10/s",
    "sliding-window 10/s",
    "sliding-log 10/s",
    "quota 10/day",
    "concurrency 10 lease 1s",
];
const SHAPER: &str = "10/s max-wait 1s";

/// Longer than any policy should have, so that a slow store is not mistaken for a failing one.
const DEADLINE: Duration = Duration::from_secs(2);

/// How many checks are timed at most, and for how long.
const CHECKS_MAX: usize = 300;
const BUDGET_US: u64 = 1_000_000;

struct ScriptTest {
    store: Arc<dyn Store>,
    key: String,
}

/// How a store is opened to look at it.
pub(super) fn options(key_prefix: &str) -> StoreOptions {
    let key_prefix = key_prefix.to_owned();
    let (deadline, breaker, announces) = (DEADLINE, None, false);
    StoreOptions { key_prefix, deadline, breaker, announces, ..StoreOptions::default() }
}

/// Runs the scripts with keys of this run, which are deleted or expire.
pub(super) async fn run(
    store: Arc<dyn Store>,
    key: String,
    driver: &dyn StoreDriver,
) -> Vec<Finding> {
    let test = ScriptTest { store, key };
    let mut failed: Vec<(&str, StoreError)> = Vec::new();
    for text in LIMITS {
        failed.extend(test.run(text).await.err().map(|error| (text, error)));
    }
    failed.extend(test.shape().await.err().map(|error| ("leaky-bucket", error)));
    // One finding per kind of failure, however many algorithms it hits.
    failed.dedup_by_key(|(_, error)| error.kind());
    let mut findings: Vec<_> =
        failed.iter().map(|(what, error)| script_failed(what, error, driver)).collect();
    if !findings.is_empty() {
        return findings;
    }
    findings.push(Finding::ok("script", "every algorithm has run"));
    findings.extend(
        test.time().await.and_then(|times_us| Finding::times("script-time", "a check", &times_us)),
    );
    findings
}

impl ScriptTest {
    async fn run(&self, text: &str) -> Result<(), StoreError> {
        let limit: Limit = parsed(text)?;
        self.decide(&limit, 1, Op::Take).await?;
        self.decide(&limit, 0, Op::Reset).await
    }

    async fn shape(&self) -> Result<(), StoreError> {
        let shaper: LeakyBucket = parsed(SHAPER)?;
        let scope = Scope::named("doctor", "shaper");
        let request = ReserveRequest {
            scope: &scope,
            key: self.key.as_bytes(),
            shaper: &shaper,
            cost: 1,
            cancel: None,
        };
        self.store.reserve(&request, SystemClock.now()).await.map(drop)
    }

    async fn decide(&self, limit: &Limit, cost: u64, op: Op) -> Result<(), StoreError> {
        let scope = Scope::named("doctor", "");
        let limits = [KeyedLimit { scope: &scope, key: self.key.as_bytes(), limit }];
        let request = StoreRequest { mode: Mode::All, limits: &limits, cost, op };
        self.store.decide(&request, SystemClock.now()).await.map(drop)
    }

    /// The times of checks, sorted.
    async fn time(&self) -> Option<Vec<u64>> {
        let limit: Limit = parsed(LIMITS[0]).ok()?;
        let mut laps = Laps::new(CHECKS_MAX, BUDGET_US);
        while laps.start() {
            self.decide(&limit, 1, Op::Peek).await.ok()?;
            laps.end();
        }
        Some(laps.sorted_us())
    }
}

fn parsed<L: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<L, StoreError> {
    text.parse()
        .map_err(|error: L::Err| StoreError::new(StoreErrorKind::BadRequest, error.to_string()))
}

/// A check by this algorithm failed.
fn script_failed(what: &str, error: &StoreError, driver: &dyn StoreDriver) -> Finding {
    Finding::fault("script", format!("{what}: {}", printable(&error.to_string())))
        .risk("such checks fail, and on_store_error decides")
        .remedy(super::remedy(driver, error.kind()))
}
