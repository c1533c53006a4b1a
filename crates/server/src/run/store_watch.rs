//! Polls a store once a second: for overrides that were set on other nodes, to detect outages, for servers of a quorum, and
//! for charges that replicas did not confirm.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Clock, Replicas, StoreError, StoreErrorKind, SystemClock, Timestamp, Unconfirmed};
use tokio::time::{Instant, MissedTickBehavior};

use super::quorum_watch::QuorumWatch;
use crate::metrics::{StoreOutage, StoreRole, one_line};
use crate::service::{AppState, Fallbacks};
use tidegate::driver::{OpenStore, StoreServer, StoreServerState};
use tidegate_core::text::printable;

/// A store that is checked once a second.
pub(super) struct WatchedStore {
    pub(super) role: StoreRole,
    pub(super) opened: OpenStore,
    /// Its URL without secrets.
    pub(super) url: Arc<str>,
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

/// Overrides that were set before `store.hash_keys`, as last logged.
#[derive(Default)]
pub(super) struct ReadableOverrides(usize);

impl ReadableOverrides {
    /// Logs a count that is another than before.
    pub(super) fn see(&mut self, count: usize) {
        if std::mem::replace(&mut self.0, count) == count || count == 0 {
            return;
        }
        tracing::warn!(
            count,
            "overrides were set without `store.hash_keys`: they match nobody, and their keys are readable in the store: \
             delete them, and set those that should hold again; GET /v1/overrides lists them"
        );
    }
}

/// While an outage lasts, a line with its cause is written this often.
const REMINDER_INTERVAL: Duration = Duration::from_mins(1);

/// Why a store does not serve some policies.
#[derive(Clone)]
struct Trouble {
    error: StoreError,
    /// It does not serve those whose states matter for at least this long.
    lives_from: Duration,
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self { error, lives_from: Duration::ZERO }
    }
}

/// A store that does not serve.
struct Outage {
    since: Timestamp,
    logged_at: Instant,
    /// The last one that says why.
    trouble: Trouble,
    failures: u32,
}

impl Outage {
    fn begin(trouble: Trouble, since: Timestamp) -> Self {
        Self { since, logged_at: Instant::now(), trouble, failures: 0 }
    }

    /// Counts a failed check. An error that says nothing about the store does not replace one that does.
    fn fail(&mut self, trouble: Trouble) {
        let says_nothing =
            matches!(trouble.error.kind(), StoreErrorKind::BreakerOpen | StoreErrorKind::NotSent);
        if !says_nothing {
            self.trouble = trouble;
        }
        self.failures = self.failures.saturating_add(1);
    }

    fn view(&self, url: &Arc<str>) -> StoreOutage {
        let Trouble { error, lives_from } = self.trouble.clone();
        StoreOutage { since: self.since, error, url: url.clone(), lives_from }
    }

    fn seconds(&self) -> u64 {
        SystemClock.now().as_micros().saturating_sub(self.since.as_micros()) / 1_000_000
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

/// Refreshes overrides, and logs the beginning and the end of each outage, servers of a quorum, and unconfirmed charges.
/// Never returns.
pub(super) async fn watch(app: Arc<AppState>, store: WatchedStore) {
    let WatchedStore { role, opened, url } = &store;
    let mut every = tokio::time::interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage: Option<Outage> = None;
    let (mut unconfirmed, mut servers) = (UnconfirmedCharges::default(), QuorumWatch::default());
    let mut readable = ReadableOverrides::default();
    loop {
        every.tick().await;
        let total = opened.report().network.map_or(0, |stats| stats.unreplicated);
        if let Some(count) = unconfirmed.due(total, Instant::now()) {
            log_unconfirmed(&app, url, count);
        }
        let trouble = trouble(&app, &store).await;
        if *role == StoreRole::Main {
            readable.see(app.in_force().engine.overrides().readable());
        }
        let longest = lives(&app, *role).pop().unwrap_or_default();
        if let Some(counts) = servers.see(*role, &opened.servers(), longest) {
            app.metrics().set_servers(*role, counts);
        }
        let Some(trouble) = trouble else {
            app.metrics().seen_serving(*role);
            app.metrics().set_outage(*role, None);
            if let Some(outage) = outage.take().filter(|it| it.failures >= FAILURES_MIN) {
                let (outage_s, error) = (outage.seconds(), one_line(&outage.trouble.error));
                let store = role.as_str();
                tracing::info!(store, %url, outage_s, error, "the store serves again");
            }
            continue;
        };
        let outage = outage.get_or_insert_with(|| {
            // Checks may have noticed it before.
            let since = app.metrics().failing_since(*role).unwrap_or_else(|| SystemClock.now());
            Outage::begin(trouble.clone(), since)
        });
        outage.fail(trouble);
        if outage.failures < FAILURES_MIN {
            continue;
        }
        app.metrics().set_outage(*role, Some(outage.view(url)));
        if outage.failures == FAILURES_MIN || outage.is_due(Instant::now()) {
            log_outage(&app, &store, outage);
        }
    }
}

/// Why the store does not serve, or `None` if it does. A failed refresh alone does not count, because the user may lack
/// a right that only overrides need: `reach` decides. An open breaker counts, also of one of several nodes.
async fn trouble(app: &AppState, store: &WatchedStore) -> Option<Trouble> {
    let WatchedStore { role, opened, .. } = store;
    let is_refreshed = match role {
        StoreRole::Main => {
            let engine = app.in_force().engine.clone();
            let refreshed = engine.overrides().refresh().await;
            if let Err(error) = &refreshed {
                tracing::debug!(%error, "overrides stay as they were");
            }
            refreshed.is_ok()
        }
        // Overrides are in the main store.
        StoreRole::Quorum => false,
    };
    if let Some(cause) = opened.cause() {
        return Some(cause.into());
    }
    if !is_refreshed && let Err(error) = opened.reach().await {
        return Some(error.into());
    }
    let has_forgotten =
        |server: &StoreServer| matches!(server.state, StoreServerState::Forgot { .. });
    if !opened.servers().iter().any(has_forgotten) {
        return None;
    }
    recovering(opened, &lives(app, *role)).await
}

/// Whether servers have forgotten too much for policies whose states matter for long, and from which time on. `lives` are
/// in ascending order, so at most the binary logarithm of their number is asked.
async fn recovering(opened: &OpenStore, lives: &[Duration]) -> Option<Trouble> {
    let is_out = |error: &StoreError| error.kind() == StoreErrorKind::Recovering;
    let (longest, shorter) = lives.split_last()?;
    let error = opened.reach_for(*longest).await.err()?;
    if !is_out(&error) {
        return error.kind().is_store_failure().then(|| error.into());
    }
    let mut trouble = Trouble { error, lives_from: *longest };
    let mut open = shorter;
    while let Some(middle) = open.get(open.len() / 2) {
        let (below, above) = open.split_at(open.len() / 2);
        if let Some(error) = opened.reach_for(*middle).await.err().filter(is_out) {
            trouble = Trouble { error, lives_from: *middle };
            open = below;
        } else {
            open = &above[1..];
        }
    }
    Some(trouble)
}

/// For how long states of the policies that a store counts matter: ascending, none twice.
fn lives(app: &AppState, role: StoreRole) -> Vec<Duration> {
    let in_force = app.in_force();
    let counted = in_force.policies();
    let counted = counted.filter(|it| app.metrics().role_of(it.is_in_quorum()) == role);
    let lives: BTreeSet<_> = counted.map(|policy| policy.state_life_max()).collect();
    lives.into_iter().collect()
}

/// Says nothing if every policy that waits for replicas denies then: such refusals have a line of their own.
fn log_unconfirmed(app: &AppState, url: &str, count: u64) {
    let in_force = app.in_force();
    let admits = |replicas: Replicas| replicas.unconfirmed == Unconfirmed::Allow;
    let admitting = in_force.policies().filter(|policy| policy.replicas().is_some_and(admits));
    let names: Vec<_> = admitting.map(|policy| printable(policy.name())).take(NAMES_MAX).collect();
    if names.is_empty() {
        return;
    }
    tracing::warn!(
        url,
        policies = names.join(", "),
        count,
        "too few replicas confirmed charges in time: these policies admit all the same (`unconfirmed: allow`), and a \
         failover may forget the charges"
    );
}

fn log_outage(app: &AppState, store: &WatchedStore, outage: &Outage) {
    let WatchedStore { role, url, .. } = store;
    let Fallbacks { deny, allow, local } =
        Fallbacks::of_store(app, *role, outage.trouble.lives_from);
    let (outage_s, error) = (outage.seconds(), one_line(&outage.trouble.error));
    let message = if outage.failures == FAILURES_MIN {
        "the store does not serve: each of these policies decides by its `on_store_error` until it does, and it is tried \
         again all the time; `tidegate doctor --store URL` says more"
    } else {
        "the store still does not serve"
    };
    tracing::warn!(
        store = role.as_str(),
        %url,
        outage_s,
        error,
        policies_local = local.listed(),
        policies_allow = allow.listed(),
        policies_deny = deny.listed(),
        "{message}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_keeps_the_last_error_that_says_why() {
        use StoreErrorKind as Kind;
        let error = |kind| Trouble::from(StoreError::new(kind, "why"));
        let mut outage = Outage::begin(error(Kind::Timeout), Timestamp::EPOCH);
        for (kind, kept) in [
            (Kind::BreakerOpen, Kind::Timeout),
            (Kind::Unreachable, Kind::Unreachable),
            (Kind::NotSent, Kind::Unreachable),
            (Kind::BreakerOpen, Kind::Unreachable),
            (Kind::Loading, Kind::Loading),
        ] {
            outage.fail(error(kind));
            assert_eq!(outage.trouble.error.kind(), kept);
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
