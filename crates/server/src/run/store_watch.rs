//! Polls the store once a second: for overrides that were set on other nodes, to detect outages, and for charges that
//! replicas did not confirm.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{OnStoreError, Replicas, StoreError, Unconfirmed};
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

/// At most one line about unconfirmed charges in this time.
const UNCONFIRMED_INTERVAL: Duration = Duration::from_secs(10);
/// The most policies that a line names.
const NAMES_MAX: usize = 10;

/// Charges that too few replicas confirmed, since the last line about them.
#[derive(Default)]
struct UnconfirmedCharges {
    total: u64,
    logged_at: Option<Instant>,
}

impl UnconfirmedCharges {
    /// How many to log now.
    fn due(&mut self, total: u64, now: Instant) -> Option<u64> {
        let is_early = |at| now.duration_since(at) < UNCONFIRMED_INTERVAL;
        let count = total.saturating_sub(self.total);
        if count == 0 || self.logged_at.is_some_and(is_early) {
            return None;
        }
        (self.total, self.logged_at) = (total, Some(now));
        Some(count)
    }
}

/// A store that does not serve.
struct Outage {
    since: Instant,
    /// The first error: later ones may only say that the breaker is open.
    error: StoreError,
    failures: u32,
}

/// Refreshes overrides, and logs the beginning and the end of each outage, and unconfirmed charges. Never returns.
pub(super) async fn watch(app: Arc<AppState>, store: WatchedStore) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage: Option<Outage> = None;
    let mut unconfirmed = UnconfirmedCharges::default();
    loop {
        every.tick().await;
        let total = store.opened.report().network.map_or(0, |stats| stats.unreplicated);
        if let Some(count) = unconfirmed.due(total, Instant::now()) {
            log_unconfirmed(&app, &store.name, count);
        }
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
    let Some(error) = engine.overrides().refresh().await.err() else {
        // That was the main store.
        return store.quorum()?.reach().await.err();
    };
    tracing::debug!(%error, "overrides stay as they were");
    store.reach().await.err()
}

/// Says nothing if every policy that waits for replicas denies then: such refusals have a line of their own.
fn log_unconfirmed(app: &AppState, store: &str, count: u64) {
    let in_force = app.in_force();
    let admits = |replicas: Replicas| replicas.unconfirmed == Unconfirmed::Allow;
    let admitting = in_force.policies().filter(|policy| policy.replicas().is_some_and(admits));
    let names: Vec<_> = admitting.map(|policy| printable(policy.name())).take(NAMES_MAX).collect();
    if names.is_empty() {
        return;
    }
    tracing::warn!(
        store,
        policies = names.join(", "),
        count,
        "too few replicas confirmed charges in time: these policies admit all the same (`unconfirmed: allow`), and a \
         failover may forget the charges"
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unconfirmed_charges_are_logged_at_once_and_then_summed_up() {
        let (mut unconfirmed, start) = (UnconfirmedCharges::default(), Instant::now());
        let mut due = |total, after_s| unconfirmed.due(total, start + Duration::from_secs(after_s));
        assert_eq!([due(0, 0), due(3, 1), due(5, 2), due(9, 10)], [None, Some(3), None, None]);
        assert_eq!([due(9, 11), due(9, 30), due(10, 31)], [Some(6), None, Some(1)]);
    }
}
