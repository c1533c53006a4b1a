//! Several cases at a time, told in their order: each waits for the network by itself.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate::{Store, StoreError};
use tokio::task::JoinHandle;

use super::Failure;
use super::case::Case;
use super::replay::{Answer, Replay};

/// The most cases that are under way at once: enough to fill the time of a round trip.
const CASES_MAX: usize = 64;

/// A case to replay.
pub(super) struct Job {
    pub(super) file: Arc<str>,
    pub(super) case: Case,
    pub(super) store: Arc<dyn Store>,
}

/// A case that was replayed: one answer per step, up to the one that failed.
pub(super) struct Played {
    pub(super) file: Arc<str>,
    pub(super) case: Case,
    pub(super) answers: Vec<Answer>,
    pub(super) failed: Option<StoreError>,
}

/// The cases under way, oldest first.
#[derive(Default)]
pub(super) struct Window {
    running: VecDeque<JoinHandle<Played>>,
    /// How many were started: the key of the next, also where a file is given twice.
    started: u64,
}

impl Window {
    /// Starts a case; where there are too many, the oldest is finished first.
    pub(super) async fn push(
        &mut self,
        job: Job,
        done: &mut impl FnMut(Played) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.running.len() >= CASES_MAX {
            self.pop(done).await?;
        }
        self.started += 1;
        self.running.push_back(tokio::spawn(job.play(self.started)));
        Ok(())
    }

    /// Finishes all.
    pub(super) async fn drain(
        &mut self,
        done: &mut impl FnMut(Played) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        while !self.running.is_empty() {
            self.pop(done).await?;
        }
        Ok(())
    }

    async fn pop(
        &mut self,
        done: &mut impl FnMut(Played) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(oldest) = self.running.pop_front() else { return Ok(()) };
        done(oldest.await.map_err(|error| Failure::new(error.to_string()))?)
    }
}

impl Job {
    async fn play(self, number: u64) -> Played {
        let Self { file, case, store } = self;
        let replay = Replay::new(&*store, &case.limits, format!("case-{number}"));
        let (mut answers, mut failed) = (Vec::with_capacity(case.steps.len()), None);
        for step in &case.steps {
            match replay.step(step.now, step.cost).await {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if let Some(last) = case.steps.last() {
            replay.forget(last.now).await;
        }
        Played { file, case, answers, failed }
    }
}
