//! Failed questions.

use std::time::Duration;

use tidegate::{Answer, CheckError, StoreErrorKind};

use super::{Handle, InForce};
use tidegate_core::text::printable;

/// Why a question has no answer. A refusal is an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// With the most similar name, if there is one.
    UnknownPolicy { name: String, closest: Option<String> },
    /// The question is invalid: a retry fails again.
    BadQuestion(CheckError),
    /// The store failed, and there is no fallback. Without the address of the store, which callers must not see.
    StoreFailed(StoreErrorKind),
    /// The store failed, and the policy denies then.
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

    /// For a shaper, which has no refusal that could carry a failure.
    pub(super) fn from_queue(in_force: &InForce, policy: &Handle<'_>, error: CheckError) -> Self {
        match policy.fails_closed(&error) {
            Some(wait) => {
                Self::FailedClosed { policy: policy.name().to_owned(), retry_after: Some(wait) }
            }
            None => Self::new(in_force, error),
        }
    }

    /// The answer, unless the store failed and the policy denies then.
    pub(crate) fn unless_decided(answer: Answer<'_>) -> Result<Answer<'_>, Self> {
        if !answer.fails_closed() {
            return Ok(answer);
        }
        let (policy, retry_after) = (answer.policy.to_owned(), answer.decision.retry_after());
        Err(Self::FailedClosed { policy, retry_after })
    }

    /// One line of text.
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
