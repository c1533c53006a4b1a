//! Asks the engine, within the time that the caller has.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use smallvec::SmallVec;
use tidegate::{Answer, CheckError, Engine, Op, Reply, Source, StoreError};
use tokio::time::Instant;

use super::super::answer::Status;
use super::super::native;
use super::super::targets::{Counted, Role};
use super::{Asked, cost};

/// Who asks for one call.
#[derive(Debug)]
pub(in super::super) struct Asker<'a> {
    engine: &'a Engine,
    /// How long the caller waits, if it said so.
    patience: Option<Duration>,
    /// When that ends. Known from the first answer on that does not come at once: to look at the clock costs more than
    /// most answers.
    until: Option<Instant>,
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Trouble {
    /// The question makes no sense.
    Bad(String),
    /// There is no such policy.
    Unknown(String),
    /// The store fails, and the policy then admits nothing. Never a refusal.
    Unavailable(String),
}

type Statuses<'a> = SmallVec<[Status<'a>; 2]>;

impl<'a> Asker<'a> {
    pub(in super::super) const fn new(engine: &'a Engine, patience: Option<Duration>) -> Self {
        Self { engine, patience, until: None }
    }

    /// Spends all or nothing, in one atomic step.
    pub(super) async fn together(
        &mut self,
        asked: &[Asked<'_, 'a>],
    ) -> Result<Statuses<'a>, Trouble> {
        // Until the engine can: looked at first, then taken.
        let looked = self.each(asked, Op::Peek, cost).await?;
        if looked.iter().all(|status| status.code == super::Code::Ok) {
            return self.each(asked, Op::Take, cost).await;
        }
        Ok(looked)
    }

    /// Asks each by itself. All are under way before the first is waited for.
    pub(super) async fn each(
        &mut self,
        asked: &[Asked<'_, 'a>],
        op: Op,
        cost: impl Fn(&Counted<'_>) -> u64,
    ) -> Result<Statuses<'a>, Trouble> {
        let ask = |(_, counted): &Asked<'_, 'a>| self.engine.ask(&counted.check(cost(counted)), op);
        let under_way: SmallVec<[Reply<'a, Answer<'a>, CheckError>; 2]> =
            asked.iter().map(ask).collect();
        let mut statuses = Statuses::new();
        for ((_, counted), reply) in asked.iter().zip(under_way) {
            let answer = self.wait(reply).await?;
            statuses.push(status(counted, &answer)?);
        }
        Ok(statuses)
    }

    async fn wait<T: Unpin>(&mut self, mut reply: Reply<'_, T, CheckError>) -> Result<T, Trouble> {
        // An answer that is there needs no timer.
        let there = std::future::poll_fn(|task| Poll::Ready(Pin::new(&mut reply).poll(task))).await;
        let answer = match (there, self.patience) {
            (Poll::Ready(answer), _) => answer,
            (Poll::Pending, None) => reply.await,
            (Poll::Pending, Some(patience)) => {
                let until = *self.until.get_or_insert_with(|| Instant::now() + patience);
                let answer = tokio::time::timeout_at(until, reply).await;
                answer.unwrap_or_else(|_| {
                    let why = "no answer within the time of the call";
                    Err(CheckError::Store(StoreError::new(tidegate::Trouble::Timeout, why)))
                })
            }
        };
        answer.map_err(|error| Trouble::of(&error))
    }
}

fn status<'a>(counted: &Counted<'a>, answer: &Answer<'a>) -> Result<Status<'a>, Trouble> {
    // A shadow that cannot be asked refuses nobody either.
    if answer.source == Source::FailClosed && counted.role != Role::Shadow {
        let why = format!("policy `{}` admits nothing while its store fails", answer.policy);
        return Err(Trouble::Unavailable(why));
    }
    Ok(Status::of(&answer.decision, counted.shown.or_else(|| native::shown(answer))))
}

impl Trouble {
    fn of(error: &CheckError) -> Self {
        match error {
            CheckError::UnknownPolicy(_) => Self::Unknown(error.to_string()),
            // Only the kind: where the store is, is nothing to callers.
            CheckError::Store(error) => Self::Unavailable(format!(
                "the store did not answer ({}), and nothing can stand in for it",
                error.trouble().as_str()
            )),
            other => Self::Bad(other.to_string()),
        }
    }
}
