//! Why a question has no answer.

use std::time::Duration;

use tidegate::{Answer, CheckError, StoreErrorKind};

use super::{Handle, InForce};
use tidegate_core::text::printable;

/// Why a question has no answer. A refusal is none of these.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// There is no policy of this name; perhaps another was meant.
    UnknownPolicy { name: String, closest: Option<String> },
    /// The question makes no sense: asked again it fails again.
    BadQuestion(CheckError),
    /// The store failed, and nothing can stand in for it. Where the store is, is nothing to callers.
    StoreFailed(StoreErrorKind),
    /// The store failed, and the policy turns everybody away then.
    FailedClosed { policy: String, retry_after: Option<Duration> },
}

impl Unanswered {
    pub(super) fn unknown(in_force: &InForce, name: &str) -> Self {
        let closest = in_force.closest(name).map(str::to_owned);
        Self::UnknownPolicy { name: name.to_owned(), closest }
    }

    pub(super) fn new(in_force: &InForce, error: CheckError) -> Self {
        if let Some(failure) = error.store_failure() {
            return Self::StoreFailed(failure.kind());
        }
        match error {
            CheckError::UnknownPolicy(name) => Self::unknown(in_force, &name),
            error => Self::BadQuestion(error),
        }
    }

    /// The same of a place in a queue: a shaper has no refusal that would say so.
    pub(super) fn of_queue(in_force: &InForce, policy: &Handle<'_>, error: CheckError) -> Self {
        match policy.fails_closed(&error) {
            Some(wait) => {
                Self::FailedClosed { policy: policy.name().to_owned(), retry_after: Some(wait) }
            }
            None => Self::new(in_force, error),
        }
    }

    /// The answer, unless nobody has decided and the policy turns everybody away then.
    pub(crate) fn unless_decided(answer: Answer<'_>) -> Result<Answer<'_>, Self> {
        if !answer.fails_closed() {
            return Ok(answer);
        }
        let (policy, retry_after) = (answer.policy.to_owned(), answer.decision.retry_after());
        Err(Self::FailedClosed { policy, retry_after })
    }

    /// What is wrong, as a line of text.
    pub(crate) fn detail(&self) -> String {
        match self {
            Self::UnknownPolicy { name, closest } => {
                let hint =
                    closest.as_ref().map(|name| format!("; did you mean `{}`?", printable(name)));
                format!("no policy is called `{}`{}", printable(name), hint.unwrap_or_default())
            }
            Self::BadQuestion(error) => printable(&error.to_string()),
            Self::StoreFailed(kind) => format!(
                "the store did not answer ({}), and nothing can stand in for it",
                kind.as_str()
            ),
            Self::FailedClosed { policy, .. } => {
                format!("policy `{}` admits nothing while its store fails", printable(policy))
            }
        }
    }
}
