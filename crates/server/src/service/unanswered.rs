//! Failed questions.

use std::time::Duration;

use tidegate::{Answer, CheckError, StoreErrorKind, Timestamp};

use super::Handle;
use tidegate_core::text::{printable, rfc3339};

/// Why a question has no answer. A refusal is an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unanswered {
    /// Without a guess at what was meant: that would cost a comparison with every policy.
    UnknownPolicy {
        name: String,
        /// When a reload removed it, if one did.
        removed_at: Option<Timestamp>,
    },
    /// The question is invalid: a retry fails again.
    BadQuestion(CheckError),
    /// The store failed, and there is no fallback. Without the address of the store, which callers must not see.
    StoreFailed(StoreErrorKind),
    /// The store failed, and the policy denies then.
    FailedClosed { policy: String, retry_after: Option<Duration> },
}

impl Unanswered {
    pub(super) fn new(error: CheckError) -> Self {
        if let Some(failure) = error.store_failure() {
            return Self::StoreFailed(failure.kind());
        }
        match error {
            CheckError::UnknownPolicy(name) => Self::UnknownPolicy { name, removed_at: None },
            error => Self::BadQuestion(error),
        }
    }

    /// For a shaper, which has no refusal that could carry a failure.
    pub(super) fn from_queue(policy: &Handle<'_>, error: CheckError) -> Self {
        match policy.fails_closed(&error) {
            Some(wait) => {
                Self::FailedClosed { policy: policy.name().to_owned(), retry_after: Some(wait) }
            }
            None => Self::new(error),
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
            Self::UnknownPolicy { name, removed_at } => {
                format!("no policy is called `{}`{}", printable(name), since_reload(*removed_at))
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

/// What follows the name of a policy that a reload has removed.
pub(crate) fn since_reload(removed_at: Option<Timestamp>) -> String {
    removed_at.map(|at| format!(": the reload at {} removed it", rfc3339(at))).unwrap_or_default()
}
