//! Looks at the store once a second: what operators of other nodes have set there, and whether it serves at all.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{OnStoreError, StoreError};
use tokio::time::{Instant, MissedTickBehavior};

use crate::service::AppState;
use tidegate::driver::OpenStore;
use tidegate_core::text::printable;

/// A store that is looked after.
pub(super) struct Watched {
    pub(super) opened: OpenStore,
    /// As people are told it, without secrets.
    pub(super) name: String,
}

/// Looks in a row that fail before it is told: one may be a hiccup, or the first connection takes its time.
const LOOKS: u32 = 2;

/// A store that does not serve.
struct Outage {
    since: Instant,
    /// What was seen first: what comes later may only be that it is left alone.
    trouble: StoreError,
    looks: u32,
}

/// Follows what operators set, and says once that the store does not serve and once that it does again. For ever.
pub(super) async fn watch(app: Arc<AppState>, store: Watched) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut outage: Option<Outage> = None;
    loop {
        every.tick().await;
        let Some(trouble) = trouble(&app, &store.opened).await else {
            if let Some(Outage { since, .. }) = outage.take().filter(|it| it.looks >= LOOKS) {
                let away_s = since.elapsed().as_secs();
                tracing::info!(store = store.name, away_s, "the store serves again");
            }
            continue;
        };
        let first = || Outage { since: Instant::now(), trouble, looks: 0 };
        let outage = outage.get_or_insert_with(first);
        outage.looks = outage.looks.saturating_add(1);
        if outage.looks == LOOKS {
            away(&app, &store.name, &outage.trouble);
        }
    }
}

/// Why the store does not serve, if it does not. What fails may be a right that only overrides need: a check has the last
/// word.
async fn trouble(app: &AppState, store: &OpenStore) -> Option<StoreError> {
    let engine = app.in_force().engine.clone();
    let error = engine.overrides().refresh().await.err()?;
    tracing::debug!(%error, "overrides stay as they were");
    store.reach().await.err()
}

fn away(app: &AppState, store: &str, trouble: &StoreError) {
    let in_force = app.in_force();
    let by = |wanted: fn(OnStoreError) -> bool| {
        in_force.policies().filter(|policy| wanted(policy.on_store_error())).count()
    };
    tracing::warn!(
        store,
        trouble = printable(&trouble.to_string()),
        policies_local = by(|it| it == OnStoreError::Local),
        policies_allow = by(|it| it == OnStoreError::Allow),
        policies_deny = by(|it| matches!(it, OnStoreError::Deny { .. })),
        "the store does not serve: each policy decides by its `on_store_error` until it does, and it is tried again \
         all the time; `tidegate doctor --store URL` says more"
    );
}
