//! Tasks that take from one limit without a pause, and what came of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Ran;
use tidegate_postgres::PostgresStore;
use tidegate_testkit::processes::AGREEMENT_DEADLINE;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::support::take;

/// Tasks at once: each waits for its answer before it asks again.
const TASKS: usize = 8;

/// A refused or failed task asks again after this time.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) admitted: Arc<AtomicU64>,
    pub(crate) refused: Arc<AtomicU64>,
    /// The server may have charged it or not, and nobody was admitted.
    pub(crate) unknown: Arc<AtomicU64>,
    pub(crate) not_run: Arc<AtomicU64>,
}

impl Outcomes {
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::SeqCst)
    }

    pub(crate) fn unknown(&self) -> u64 {
        self.unknown.load(Ordering::SeqCst)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.unknown() + self.not_run.load(Ordering::SeqCst)
    }
}

/// Ends with `end`.
pub(crate) struct Load {
    pub(crate) outcomes: Outcomes,
    is_over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(store: &Arc<PostgresStore>, limit: &str, key: &str) -> Self {
        let (outcomes, is_over) = (Outcomes::default(), Arc::new(AtomicBool::new(false)));
        let ask = || {
            let (store, outcomes, is_over) = (store.clone(), outcomes.clone(), is_over.clone());
            let (limit, key) = (limit.to_owned(), key.to_owned());
            tokio::spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    let counter = match take(&*store, &limit, &key).await {
                        Ok(decision) if decision.allowed() => &outcomes.admitted,
                        Ok(_) => &outcomes.refused,
                        Err(error) if error.ran() == Ran::No => &outcomes.not_run,
                        Err(_) => &outcomes.unknown,
                    };
                    counter.fetch_add(1, Ordering::SeqCst);
                    if !Arc::ptr_eq(counter, &outcomes.admitted) {
                        sleep(PAUSE).await;
                    }
                }
            })
        };
        let tasks = (0..TASKS).map(|_| ask()).collect();
        Self { outcomes, is_over, tasks }
    }

    /// Waits until one of the outcomes has risen by this much.
    pub(crate) async fn until_more(&self, counter: &AtomicU64, by: u64) {
        let wanted = counter.load(Ordering::SeqCst) + by;
        let risen = async {
            while counter.load(Ordering::SeqCst) < wanted {
                sleep(PAUSE).await;
            }
        };
        let outcomes = &self.outcomes;
        timeout(AGREEMENT_DEADLINE, risen).await.unwrap_or_else(|_| panic!("{outcomes:?}"));
    }

    /// Waits until everybody is refused, then stops.
    pub(crate) async fn until_spent(self) -> Outcomes {
        self.until_more(&self.outcomes.refused, 5 * TASKS as u64).await;
        self.end().await
    }

    pub(crate) async fn end(self) -> Outcomes {
        self.is_over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.outcomes
    }
}
