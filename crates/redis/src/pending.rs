//! One request on its way: its deadline, its attempts, and where its reply goes.

use std::fmt;
use std::sync::Arc;

use tidegate::store_kit::BreakerPass;
use tidegate::{StoreError, StoreErrorKind};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;

pub(crate) type ScriptResult = Result<ScriptReply, StoreError>;

/// Where the answer will come out.
pub(crate) type ReplyReceiver = oneshot::Receiver<ScriptResult>;

/// Sees every answer of a node: its breaker.
pub(crate) trait ReplyObserver: Send + Sync + fmt::Debug {
    fn observe(self: Arc<Self>, pass: BreakerPass, pending: &Pending, error: Option<&StoreError>);
}

#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) request: ScriptRequest,
    /// Where a cluster keeps its keys; 0 without a cluster.
    pub(crate) slot: u16,
    pub(crate) due: Instant,
    /// It was refused once, certainly without running: it goes by source, so that nothing can ask for a third time.
    pub(crate) tried: bool,
    /// It shares a call with requests on the same keys only: its slot is being moved key by key.
    pub(crate) alone: bool,
    /// It goes to a node that is still importing its slot.
    pub(crate) asking: bool,
    /// What was answered, while replicas have not confirmed it.
    pub(crate) held: Option<ScriptReply>,
    /// The breaker of its node, if that has one.
    pub(crate) observer: Option<(Arc<dyn ReplyObserver>, BreakerPass)>,
    /// Counts as load of its pool while it is under way.
    _busy: Option<Arc<()>>,
    /// `None` once it was answered.
    caller: Option<oneshot::Sender<ScriptResult>>,
}

impl Pending {
    pub(crate) fn new(
        request: ScriptRequest,
        slot: u16,
        due: Instant,
        busy: Option<Arc<()>>,
    ) -> (Self, ReplyReceiver) {
        let (caller, answer) = oneshot::channel();
        let (tried, alone, asking) = (false, false, false);
        let (held, observer, caller) = (None, None, Some(caller));
        let pending =
            Self { request, slot, due, tried, alone, asking, held, observer, _busy: busy, caller };
        (pending, answer)
    }

    /// Answers the caller. Only the first answer counts.
    pub(crate) fn answer(&mut self, answer: ScriptResult) {
        let Some(caller) = self.caller.take() else { return };
        if let Some((observer, pass)) = self.observer.take() {
            observer.observe(pass, self, answer.as_ref().err());
        }
        let _ = caller.send(answer);
    }

    pub(crate) fn fail(&mut self, kind: StoreErrorKind, detail: &'static str) {
        self.answer(Err(StoreError::new(kind, detail)));
    }

    /// Fails all of them with one error.
    pub(crate) fn fail_all(requests: impl IntoIterator<Item = Self>, why: &StoreError) {
        for mut pending in requests {
            pending.answer(Err(why.clone()));
        }
    }

    /// Whether it is still unanswered.
    pub(crate) fn is_open(&self) -> bool {
        self.caller.is_some()
    }
}

/// Waits for the reply.
pub(crate) async fn received(answer: ReplyReceiver) -> ScriptResult {
    answer.await.unwrap_or_else(|_| Err(error::client_ended()))
}
