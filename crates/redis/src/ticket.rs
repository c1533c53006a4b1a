//! One question on its way: who waits for the answer, until when, and what has been tried.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::guard::Guard;
use super::question::{Outcome, Question};
use tidegate::store_kit::BreakerPass;
use tidegate::{StoreError, StoreErrorKind};

pub(super) type Answer = Result<Outcome, StoreError>;

/// Where the answer will come out.
pub(super) type Answers = oneshot::Receiver<Answer>;

#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) question: Question,
    /// Where a cluster keeps its keys; 0 without a cluster.
    pub(super) slot: u16,
    pub(super) due: Instant,
    /// It was refused once, certainly without running: it goes by source, so that nothing can ask for a third time.
    pub(super) tried: bool,
    /// It shares a call with questions on the same keys only: its slot is being moved key by key.
    pub(super) alone: bool,
    /// It goes to a node that is still importing its slot.
    pub(super) asking: bool,
    /// What was answered, while replicas have not confirmed it.
    pub(super) held: Option<Outcome>,
    /// The breaker of the node that it went to, if that has one.
    pub(super) watch: Option<(Arc<Guard>, BreakerPass)>,
    /// Shows its lane that it is under way.
    _busy: Option<Arc<()>>,
    /// `None` once it has been told.
    asker: Option<oneshot::Sender<Answer>>,
}

impl Ticket {
    pub(super) fn new(
        question: Question,
        slot: u16,
        due: Instant,
        busy: Option<Arc<()>>,
    ) -> (Self, Answers) {
        let (asker, answer) = oneshot::channel();
        let (tried, alone, asking) = (false, false, false);
        let (held, watch, asker) = (None, None, Some(asker));
        let ticket =
            Self { question, slot, due, tried, alone, asking, held, watch, _busy: busy, asker };
        (ticket, answer)
    }

    /// Tells the asker, if there still is one. The first answer stands.
    pub(super) fn answer(&mut self, answer: Answer) {
        let Some(asker) = self.asker.take() else { return };
        if let Some((guard, passed)) = self.watch.take() {
            guard.count(passed, self, answer.as_ref().err());
        }
        let _ = asker.send(answer);
    }

    pub(super) fn fail(&mut self, trouble: StoreErrorKind, detail: &'static str) {
        self.answer(Err(StoreError::new(trouble, detail)));
    }

    /// Tells all of them why there will be no answer.
    pub(super) fn fail_all(tickets: impl IntoIterator<Item = Self>, why: &StoreError) {
        for mut ticket in tickets {
            ticket.answer(Err(why.clone()));
        }
    }

    /// Whether the asker still has to be told.
    pub(super) fn is_open(&self) -> bool {
        self.asker.is_some()
    }
}

/// What came out.
pub(super) async fn told(answer: Answers) -> Answer {
    answer.await.unwrap_or_else(|_| Err(gone()))
}

/// Nobody is left to answer.
pub(super) fn gone() -> StoreError {
    StoreError::new(StoreErrorKind::Disconnected, "the client has ended")
}
