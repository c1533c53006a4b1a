//! Removes rows that say nothing any more, a few at a time, by one node at a time.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backend::PostgresBackend;

/// Rows looked at in one step.
const STEP_ROWS: i32 = 1_000;

/// The pause after a step that removed little, and after one that removed much or passed over many rows.
const IDLE_PAUSE: Duration = Duration::from_secs(1);
const BUSY_PAUSE: Duration = Duration::from_millis(50);

/// A step that removes this many is followed by the next one soon.
const MANY: i64 = 100;

/// A step that takes longer is given up.
const STEP_DEADLINE: Duration = Duration::from_secs(1);

/// Sweeps until the backend is dropped.
pub(crate) fn start(backend: &Arc<PostgresBackend>) {
    let backend = Arc::downgrade(backend);
    tokio::spawn(run(backend));
}

async fn run(backend: Weak<PostgresBackend>) {
    let mut after = String::new();
    let mut pause = IDLE_PAUSE;
    loop {
        sleep(pause).await;
        let Some(backend) = backend.upgrade() else { return };
        pause = match step(&backend, &after).await {
            Some((last, removed)) => {
                // At the end of the table it begins again.
                after = last.unwrap_or_default();
                if removed >= MANY { BUSY_PAUSE } else { IDLE_PAUSE }
            }
            None => IDLE_PAUSE,
        };
    }
}

/// The last key that was looked at, and how many rows were removed; `None` if another node sweeps, or it failed.
async fn step(backend: &PostgresBackend, after: &str) -> Option<(Option<String>, i64)> {
    let lent = backend.pool.get(Instant::now() + STEP_DEADLINE).await.ok()?;
    let (client, connected) = lent.get()?;
    let row = client.query_opt(&connected.sweep, &[&after, &STEP_ROWS]).await.ok()?;
    lent.give_back();
    let row = row?;
    Some((row.try_get(0).ok()?, row.try_get(1).ok()?))
}
