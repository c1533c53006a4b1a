//! Several limits at once: every one is decided first, and written only if the whole is admitted.

use crate::decision::Decision;
use crate::limit::Limit;
use crate::state::{Change, State};
use crate::time::Timestamp;

/// How several limits make one answer.
///
/// ```
/// use tidegate_core::{Change, Limit, Mode, State, Timestamp, decide_many};
///
/// let limits: [Limit; 2] = ["1/h".parse()?, "5/h".parse()?];
/// let states = [State::Empty, State::Empty];
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// let allowed = |mode| {
///     let limits = limits.iter().zip(&states);
///     decide_many(mode, limits, &mut [Change::KEEP; 2], now, 3).is_some_and(|v| v.decision.allowed())
/// };
/// assert!(!allowed(Mode::All));
/// assert!(allowed(Mode::Any));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Admitted if every limit admits; all are charged.
    #[default]
    All,
    /// Admitted if one limit admits; those that admit are charged.
    Any,
}

/// The answer over several limits.
///
/// ```
/// use tidegate_core::{Change, Limit, Mode, State, Timestamp, Verdict, decide_many};
///
/// let limits: [Limit; 2] = ["10/s".parse()?, "3/h".parse()?];
/// let states = [State::Empty, State::Empty];
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// let verdict = decide_many(Mode::All, limits.iter().zip(&states), &mut [Change::KEEP; 2], now, 1);
/// // The hour has less left than the second, so the answer is the hour's.
/// let of_the_hour = Verdict { binding: 1, decision: limits[1].peek(&states[1], now, 1) };
/// assert_eq!(verdict, Some(of_the_hour));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Verdict {
    /// The index of the limit that the answer speaks of.
    pub binding: usize,
    /// That limit's answer, which is the whole's.
    pub decision: Decision,
}

/// Decides `limits` against `states`, both in declared order, and leaves in `changes` what is to be
/// written for each: the charge where it is charged, otherwise a repair or nothing.
///
/// ```
/// use tidegate_core::{Change, Limit, Mode, State, Timestamp, decide_many};
///
/// let limits: [Limit; 2] = ["10/s".parse()?, "sliding-log 3/h".parse()?];
/// let mut states = [State::Empty, State::Empty];
/// let mut changes = [Change::KEEP; 2];
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
///
/// let verdict = decide_many(Mode::All, limits.iter().zip(&states), &mut changes, now, 2);
/// states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
/// assert!(verdict.is_some_and(|verdict| verdict.binding == 1 && verdict.decision.remaining() == 1));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
///
/// `None` if there is no limit at all. The slices are expected to be of one length; what is longer is
/// left alone.
pub fn decide_many<'a>(
    mode: Mode,
    limits: impl Iterator<Item = (&'a Limit, &'a State)> + Clone,
    changes: &mut [Change],
    now: Timestamp,
    cost: u64,
) -> Option<Verdict> {
    let mut verdict: Option<Verdict> = None;
    let mut admitted = 0;
    let mut count = 0;
    for (binding, ((limit, state), change)) in limits.clone().zip(&mut *changes).enumerate() {
        let (decision, planned) = limit.decide(state, now, cost);
        *change = planned;
        count += 1;
        admitted += usize::from(decision.allowed);
        if verdict.is_none_or(|before| binds_more(mode, &decision, &before.decision)) {
            verdict = Some(Verdict { binding, decision });
        }
    }
    let refused_whole = mode == Mode::All && admitted < count;
    if refused_whole {
        // Nothing is charged: what admitted on its own keeps at most its repair.
        for ((limit, state), change) in limits.zip(changes) {
            *change = limit.decide(state, now, 0).1;
        }
    }
    verdict
}

/// Whether `new` says more about the whole than `old`. Ties go to the first declared.
fn binds_more(mode: Mode, new: &Decision, old: &Decision) -> bool {
    match (mode, new.allowed, old.allowed) {
        (Mode::All, true, true) => new.remaining < old.remaining,
        (Mode::All, false, false) => new.retry_after_us > old.retry_after_us,
        (Mode::Any, true, true) => new.remaining > old.remaining,
        (Mode::Any, false, false) => new.retry_after_us < old.retry_after_us,
        (Mode::All, new_allowed, _) => !new_allowed,
        (Mode::Any, new_allowed, _) => new_allowed,
    }
}
