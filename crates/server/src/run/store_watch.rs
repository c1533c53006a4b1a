//! Polls the store once a second: for overrides that were set on other nodes, and to detect outages.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{OnStoreError, StoreError};
use tokio::time::{Instant, MissedTickBehavior};

use crate::service::AppState;
use tidegate::driver::OpenStore;
use tidegate_core::text::printable;

/// A store that is checked once a second.
pub(super) struct WatchedStore {
    pub(super) opened: OpenStore,
    /// Its URL without secrets.
    pub(super) name: String,
}

/// Failed checks in a row before an outage is logged: a single failure may be a slow first connection.
const FAILURES_MIN: u32 = 2;

/// A store that does not serve.
struct Outage {
    since: Instant,
    /// The first error: later ones may only say that the breaker is open.
    error: StoreError,
    failures: u32,
}

/// Refreshes overrides, and logs the beginning and the end of each outage. Never returns.
pub(super) async fn watch(app: Arc<AppState>, store: WatchedStore) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage: Option<Outage> = None;
    loop {
        every.tick().await;
        let Some(error) = store_error(&app, &store.opened).await else {
            if let Some(Outage { since, .. }) =
                outage.take().filter(|it| it.failures >= FAILURES_MIN)
            {
                let away_s = since.elapsed().as_secs();
                tracing::info!(store = store.name, away_s, "the store serves again");
            }
            continue;
        };
        let first = || Outage { since: Instant::now(), error, failures: 0 };
        let outage = outage.get_or_insert_with(first);
        outage.failures = outage.failures.saturating_add(1);
        if outage.failures == FAILURES_MIN {
            log_outage(&app, &store.name, &outage.error);
        }
    }
}

/// Why the store does not serve, or `None` if it does. A failed refresh alone does not count, because the user may lack
/// a right that only overrides need: `reach` decides.
async fn store_error(app: &AppState, store: &OpenStore) -> Option<StoreError> {
    let engine = app.in_force().engine.clone();
    let error = engine.overrides().refresh().await.err()?;
    tracing::debug!(%error, "overrides stay as they were");
    store.reach().await.err()
}

fn log_outage(app: &AppState, store: &str, error: &StoreError) {
    let in_force = app.in_force();
    let by = |wanted: fn(OnStoreError) -> bool| {
        in_force.policies().filter(|policy| wanted(policy.on_store_error())).count()
    };
    tracing::warn!(
        store,
        trouble = printable(&error.to_string()),
        policies_local = by(|it| it == OnStoreError::Local),
        policies_allow = by(|it| it == OnStoreError::Allow),
        policies_deny = by(|it| matches!(it, OnStoreError::Deny { .. })),
        "the store does not serve: each policy decides by its `on_store_error` until it does, and it is tried again \
         all the time; `tidegate doctor --store URL` says more"
    );
}
