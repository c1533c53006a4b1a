//! What a node says: to those who ask it, and to the store.

use super::{Return, Wanted};

/// What becomes of a check.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub enum Step {
    /// It may go ahead.
    Admit {
        /// Units left, as far as this node knows.
        remaining: u64,
        /// It was decided by the store at the store's instant, like any check without a lease, because the
        /// reply took longer than a lease lives.
        late: bool,
    },
    /// It may not.
    Refuse {
        /// When to ask again, in µs; `None` for never, because the cost is above the ceiling.
        retry_after_us: Option<u64>,
    },
    /// It is decided after the next reply.
    Wait,
}

/// What a node says to the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// To be answered by a [`Grant`](crate::Grant). There is never more than one in flight.
    Ask(Wanted),
    /// To be handed to [`Limit::give_back`](crate::Limit::give_back). Needs no answer, and is sent at most once:
    /// units that came back twice would be admitted twice.
    Return(Return),
}
