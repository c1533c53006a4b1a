//! Polls the store once a second: for overrides that were set on other nodes, to detect outages, and for charges that
//! replicas did not confirm.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Replicas, StoreError, StoreErrorKind, SystemClock, Timestamp, Unconfirmed};
use tokio::time::{Instant, MissedTickBehavior};

use crate::metrics::StoreOutage;
use crate::service::{AppState, Fallbacks};
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

/// While an outage lasts, a line with its cause is written this often.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// A store that does not serve.
struct Outage {
    since: Timestamp,
    began: Instant,
    logged_at: Instant,
    /// The last error that says why.
    error: StoreError,
    failures: u32,
}

impl Outage {
    fn begin(error: StoreError) -> Self {
        let (since, began) = (SystemClock.now(), Instant::now());
        Self { since, began, logged_at: began, error, failures: 0 }
    }

    /// Counts a failed check. An error that says nothing about the store does not replace one that does.
    fn fail(&mut self, error: StoreError) {
        let says_nothing =
            matches!(error.kind(), StoreErrorKind::BreakerOpen | StoreErrorKind::NotSent);
        if !says_nothing {
            self.error = error;
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn view(&self) -> StoreOutage {
        StoreOutage { since: self.since, error: self.error.clone() }
    }

    /// Whether the reminder is due.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.duration_since(self.logged_at) >= REMINDER_INTERVAL;
        if is_due {
            self.logged_at = now;
        }
        is_due
    }
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
            if let Some(Outage { began, error, .. }) =
                outage.take().filter(|it| it.failures >= FAILURES_MIN)
            {
                app.metrics().set_outage(None);
                let (outage_s, error) = (began.elapsed().as_secs(), printable(&error.to_string()));
                tracing::info!(store = store.name, outage_s, error, "the store serves again");
            }
            continue;
        };
        let outage = outage.get_or_insert_with(|| Outage::begin(error.clone()));
        outage.fail(error);
        if outage.failures < FAILURES_MIN {
            continue;
        }
        app.metrics().set_outage(Some(outage.view()));
        if outage.failures == FAILURES_MIN {
            log_outage(&app, &store.name, outage);
        } else if outage.is_due(Instant::now()) {
            let (outage_s, error) = (outage.began.elapsed().as_secs(), outage.view().text());
            tracing::warn!(store = store.name, outage_s, error, "the store still does not serve");
        }
    }
}

/// Why the store does not serve, or `None` if it does. A failed refresh alone does not count, because the user may lack
/// a right that only overrides need: `reach` decides. An open breaker counts, also of one of several nodes.
async fn store_error(app: &AppState, store: &OpenStore) -> Option<StoreError> {
    let engine = app.in_force().engine.clone();
    let refreshed = engine.overrides().refresh().await;
    if let Some(cause) = store.cause() {
        return Some(cause);
    }
    let Some(error) = refreshed.err() else {
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

fn log_outage(app: &AppState, store: &str, outage: &Outage) {
    let Fallbacks { deny, allow, local } = Fallbacks::in_force(app);
    tracing::warn!(
        store,
        error = outage.view().text(),
        policies_local = local.count,
        policies_allow = allow.count,
        policies_deny = deny.count,
        "the store does not serve: each policy decides by its `on_store_error` until it does, and it is tried again \
         all the time; `tidegate doctor --store URL` says more"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_keeps_the_last_error_that_says_why() {
        use StoreErrorKind as Kind;
        let error = |kind| StoreError::new(kind, "why");
        let mut outage = Outage::begin(error(Kind::Timeout));
        for (kind, kept) in [
            (Kind::BreakerOpen, Kind::Timeout),
            (Kind::Unreachable, Kind::Unreachable),
            (Kind::NotSent, Kind::Unreachable),
            (Kind::BreakerOpen, Kind::Unreachable),
            (Kind::Loading, Kind::Loading),
        ] {
            outage.fail(error(kind));
            assert_eq!(outage.view().kind(), kept);
        }
        assert_eq!(outage.failures, 5);
        let later = |seconds| outage.logged_at + Duration::from_secs(seconds);
        let [early, due, soon_after] = [later(59), later(60), later(61)];
        assert!(!outage.is_due(early) && outage.is_due(due) && !outage.is_due(soon_after));
    }

    #[test]
    fn unconfirmed_charges_are_logged_at_once_and_then_summed_up() {
        let (mut unconfirmed, start) = (UnconfirmedCharges::default(), Instant::now());
        let mut due = |total, after_s| unconfirmed.due(total, start + Duration::from_secs(after_s));
        assert_eq!([due(0, 0), due(3, 1), due(5, 2), due(9, 10)], [None, Some(3), None, None]);
        assert_eq!([due(9, 11), due(9, 30), due(10, 31)], [Some(6), None, Some(1)]);
    }
}
