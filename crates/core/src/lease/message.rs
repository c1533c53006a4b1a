//! The answers of a lease holder: to its callers, and to the store.

use super::GrantRequest;
use crate::algorithm::Return;

/// The outcome of a check.
///
/// ```
/// use tidegate_core::{Change, LeaseHolder, Limit, Message, State, Step, Terms, Timestamp, grant};
///
/// let limits: [Limit; 1] = ["fixed-window 5/h".parse()?];
/// let (mut holder, states) = (LeaseHolder::new(Terms::from_limits(&limits)?), [State::Empty]);
/// assert_eq!(holder.check(0, 6), Step::Refuse { retry_after_us: None }); // no window has as much
///
/// assert_eq!(holder.check(0, 2), Step::Wait);
/// let Some(Message::Ask(wanted)) = holder.poll(0) else { return Err("asks".into()) };
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// let granted = grant(limits.iter().zip(&states), &mut [Change::KEEP], now, wanted);
/// holder.on_reply(700, &granted.ok_or("no limit")?);
/// assert_eq!(holder.resume(700, 2), Step::Admit { remaining: 3, late: false });
///
/// let mut failing = LeaseHolder::new(Terms::from_limits(&limits)?);
/// assert_eq!(failing.check(0, 2), Step::Wait);
/// let _asks = failing.poll(0);
/// failing.on_failure(700, 0);
/// assert_eq!(failing.check(800, 2), Step::Unavailable); // until the pause ends
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "a decision that nobody looks at limits nothing"]
pub enum Step {
    /// It may go ahead.
    Admit {
        /// Units that this node has left.
        remaining: u64,
        /// It was decided by the store at the store's instant, like any check without a lease, because the
        /// reply took longer than a lease lives.
        late: bool,
    },
    /// It may not.
    Refuse {
        /// How long until it would be admitted, if nobody else came, in µs; `None` for never, because the cost is above
        /// the ceiling.
        retry_after_us: Option<u64>,
    },
    /// It is decided after the next reply.
    Wait,
    /// The store has just failed, and is not asked again yet: the failure policy answers.
    Unavailable,
}

/// A message to the store.
///
/// ```
/// use tidegate_core::{Change, LeaseHolder, Limit, Message, State, Step, Terms, Timestamp, grant};
///
/// let limits: [Limit; 1] = ["fixed-window 1000/h".parse()?];
/// let (mut holder, states) = (LeaseHolder::new(Terms::from_limits(&limits)?), [State::Empty]);
/// assert_eq!(holder.check(0, 8), Step::Wait);
/// let Some(Message::Ask(wanted)) = holder.poll(0) else { return Err("asks".into()) };
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// let granted = grant(limits.iter().zip(&states), &mut [Change::KEEP], now, wanted);
/// holder.on_reply(700, &granted.ok_or("no limit")?);
///
/// // The caller has gone meanwhile, and no other check needs them.
/// holder.release();
/// let Some(Message::Return(back)) = holder.poll(900) else { return Err("returns".into()) };
/// assert_eq!((back.units, back.granted_at), (8, now));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// To be answered by a [`Grant`](crate::Grant). There is never more than one in flight.
    Ask(GrantRequest),
    /// For [`Limit::give_back`](crate::Limit::give_back). Needs no answer, and is sent at most once:
    /// units that came back twice would be admitted twice.
    Return(Return),
}
