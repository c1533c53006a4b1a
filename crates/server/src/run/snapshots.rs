//! Saves the memory store: at an interval and when the server stops.

use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::{Snapshots, StoreMonitor};
use tidegate::{Clock, Restored, SystemClock};
use tokio::time::MissedTickBehavior;

/// Writes a snapshot at each interval. Never returns.
pub(super) async fn keep(snapshots: Arc<Snapshots>, every: Duration) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // The first tick is at once: a disk that is full or read-only shows at the start.
        interval.tick().await;
        save(snapshots.clone()).await;
    }
}

/// Writes one snapshot. A failure is logged, and the last snapshot stays.
pub(super) async fn save(snapshots: Arc<Snapshots>) {
    // Waits for the disk, which must not delay requests.
    let saved = tokio::task::spawn_blocking(move || snapshots.save(SystemClock.now())).await;
    match saved {
        Ok(Ok(bytes)) => tracing::debug!(bytes, "snapshot written"),
        Ok(Err(error)) => tracing::error!(
            %error,
            "the snapshot was not written: a restart forgets what was counted since the last one"
        ),
        // The runtime shuts down.
        Err(error) => tracing::debug!(%error, "snapshot abandoned"),
    }
}

/// Says what the server starts with.
pub(super) fn log_restored(snapshots: &Snapshots) {
    let file = snapshots.path().display();
    match snapshots.restored() {
        Restored::Nothing => {
            tracing::info!(%file, "there is no snapshot yet: every counter starts from zero");
        }
        Restored::Whole => {
            let stats = snapshots.report().memory;
            let (keys, given_up) = stats.map_or((0, 0), |stats| (stats.keys, stats.given_up));
            tracing::info!(%file, keys, given_up, "counters restored from the snapshot");
        }
        Restored::SetAside { to, why } => tracing::error!(
            %file,
            kept_as = %to.display(),
            error = %why,
            "the snapshot cannot be used, and was renamed: every counter starts from zero"
        ),
    }
}
