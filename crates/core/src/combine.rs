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

/// One of several limits: with its state, and with how many of its units one unit of the cost takes.
///
/// ```
/// use tidegate_core::{Change, Limit, Mode, State, Timestamp, Weighted, decide_many};
///
/// let limits: [Limit; 2] = ["100/min".parse()?, "fixed-window 1000/h".parse()?];
/// let mut states = [State::Empty, State::Empty];
/// let (now, mut changes) = (Timestamp::from_micros(1_700_000_000_000_000), [Change::KEEP; 2]);
/// let parts = [
///     Weighted::from((&limits[0], &states[0])), // a unit for a unit
///     Weighted { limit: &limits[1], state: &states[1], factor: 10 },
/// ];
/// decide_many(Mode::All, parts.into_iter(), &mut changes, now, 3);
/// states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
/// assert_eq!(limits[0].peek(&states[0], now, 0).remaining(), 97);
/// assert_eq!(limits[1].peek(&states[1], now, 0).remaining(), 970);
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Weighted<'a> {
    /// The limit.
    pub limit: &'a Limit,
    /// Its state.
    pub state: &'a State,
    /// What one unit of the cost takes, at least 1.
    pub factor: u64,
}

impl<'a> Weighted<'a> {
    /// Decides its part of a cost. A product above 2^53 is above every ceiling, and so is `u64::MAX`.
    fn decide(&self, now: Timestamp, cost: u64) -> (Decision, Change) {
        self.limit.decide(self.state, now, cost.saturating_mul(self.factor))
    }

    /// The same limit on another state.
    pub(crate) const fn on<'b>(self, state: &'b State) -> Weighted<'b>
    where
        'a: 'b,
    {
        Weighted { state, ..self }
    }
}

impl<'a> From<(&'a Limit, &'a State)> for Weighted<'a> {
    #[inline]
    fn from((limit, state): (&'a Limit, &'a State)) -> Self {
        Self { limit, state, factor: 1 }
    }
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

/// Decides limits on their states, in declared order, and leaves in `changes` what is to be written for each: the charge
/// where it is charged, otherwise a repair or nothing. Each is charged `cost`, or a [multiple](Weighted) of it. If all
/// admit, the one with the fewest units of the cost left binds.
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
/// `None` if there is no limit at all. `changes` is expected to be as long as the limits are many; what is longer is left
/// alone.
pub fn decide_many<'a>(
    mode: Mode,
    limits: impl Iterator<Item: Into<Weighted<'a>>> + Clone,
    changes: &mut [Change],
    now: Timestamp,
    cost: u64,
) -> Option<Verdict> {
    let mut most: Option<Candidate> = None;
    let mut admitted = 0;
    let mut count = 0;
    for (binding, (part, change)) in limits.clone().zip(&mut *changes).enumerate() {
        let part = part.into();
        let (decision, planned) = part.decide(now, cost);
        *change = planned;
        count += 1;
        admitted += usize::from(decision.allowed());
        let candidate = Candidate::new(binding, decision, part.factor);
        if most.is_none_or(|before| candidate.binds_more(mode, &before)) {
            most = Some(candidate);
        }
    }
    let refused_whole = mode == Mode::All && admitted < count;
    if refused_whole {
        // Nothing is charged: what admitted on its own keeps at most its repair.
        for (part, change) in limits.zip(changes) {
            *change = part.into().decide(now, 0).1;
        }
    }
    most.map(|most| most.verdict)
}

/// Decides several limits in one step, each with a cost of its own, and says whether the whole is admitted: all are
/// charged, or none is.
///
/// Leaves in `decisions` what each limit answers. If all admit, that is each one's charged answer. Otherwise nothing is
/// charged: those that refuse answer their refusal, and the others what they have left. A step may also be `refused`
/// from the start, by something that no limit knows of.
///
/// Leaves in `changes` what is to be written for each: the charge, or a repair, or nothing.
///
/// ```
/// use tidegate_core::{Change, Decision, Limit, State, Timestamp, decide_each};
///
/// let limits: [Limit; 2] = ["10/s".parse()?, "3/h".parse()?];
/// let mut states = [State::Empty, State::Empty];
/// let mut decisions = [Decision::unlimited(); 2];
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// let mut take = |costs: [u64; 2]| {
///     let mut changes = [Change::KEEP; 2];
///     let limits = limits.iter().zip(&states).zip(costs).map(|((limit, state), cost)| (limit, state, cost));
///     let admitted = decide_each(limits, false, &mut decisions, &mut changes, now);
///     states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
///     (admitted, decisions.map(|decision| (decision.allowed(), decision.remaining())))
/// };
/// assert_eq!(take([4, 1]), (true, [(true, 6), (true, 2)]));
/// assert_eq!(take([4, 3]), (false, [(true, 6), (false, 2)])); // nobody is charged
/// assert_eq!(take([4, 0]), (true, [(true, 2), (true, 2)])); // a cost of 0 only looks
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
///
/// No limits at all are admitted, unless `refused`. The slices are expected to be as long as the limits are many; what is
/// longer is left alone.
pub fn decide_each<'a>(
    limits: impl Iterator<Item = (&'a Limit, &'a State, u64)> + Clone,
    refused: bool,
    decisions: &mut [Decision],
    changes: &mut [Change],
    now: Timestamp,
) -> bool {
    let mut admitted = !refused;
    let places = decisions.iter_mut().zip(&mut *changes);
    for ((limit, state, cost), (decision, change)) in limits.clone().zip(places) {
        (*decision, *change) = limit.decide(state, now, cost);
        admitted &= decision.allowed();
    }
    if !admitted {
        for ((limit, state, _), (decision, change)) in limits.zip(decisions.iter_mut().zip(changes))
        {
            let (left, repair) = limit.decide(state, now, 0);
            *change = repair;
            if decision.allowed() {
                *decision = left;
            }
        }
    }
    admitted
}

impl Verdict {
    /// What a check of several limits answers, all of which have been decided by themselves, each with its
    /// [factor](Weighted::factor): as [`decide_many`] would under [`Mode::All`]. `None` if there is none.
    ///
    /// ```
    /// use tidegate_core::{Decision, Verdict};
    ///
    /// let (much, little) = (Decision::admitted(10, 9, 0), Decision::admitted(5, 1, 0));
    /// assert!(Verdict::of_all([(much, 1), (little, 1)]).is_some_and(|verdict| verdict.binding == 1));
    /// let refused = Decision::refused(5, 3, Some(1_000_000), 0);
    /// assert!(Verdict::of_all([(much, 1), (refused, 1)]).is_some_and(|verdict| verdict.binding == 1));
    /// // 60 are enough for six units of the cost, if each takes ten.
    /// let bytes = Decision::admitted(100, 60, 0);
    /// assert!(Verdict::of_all([(much, 1), (bytes, 10)]).is_some_and(|verdict| verdict.binding == 1));
    /// ```
    pub fn of_all(decisions: impl IntoIterator<Item = (Decision, u64)>) -> Option<Self> {
        let candidates = decisions.into_iter().enumerate();
        let candidates = candidates
            .map(|(binding, (decision, factor))| Candidate::new(binding, decision, factor));
        let most = candidates.reduce(
            |before, new| {
                if new.binds_more(Mode::All, &before) { new } else { before }
            },
        );
        most.map(|most| most.verdict)
    }
}

/// What may become the answer of the whole.
#[derive(Clone, Copy)]
struct Candidate {
    verdict: Verdict,
    /// What is left, in units of the cost.
    left: u64,
}

impl Candidate {
    const fn new(binding: usize, decision: Decision, factor: u64) -> Self {
        // Most are not multiplied, and a division takes as long as the rest.
        let left = if factor <= 1 { decision.remaining } else { decision.remaining / factor };
        Self { verdict: Verdict { binding, decision }, left }
    }

    /// Whether it says more about the whole than `before`. Ties go to the first declared.
    fn binds_more(&self, mode: Mode, before: &Self) -> bool {
        let (new, old) = (&self.verdict.decision, &before.verdict.decision);
        match (mode, new.allowed(), old.allowed()) {
            (Mode::All, true, true) => self.left < before.left,
            (Mode::All, false, false) => new.retry_after_us > old.retry_after_us,
            (Mode::Any, true, true) => self.left > before.left,
            (Mode::Any, false, false) => new.retry_after_us < old.retry_after_us,
            (Mode::All, new_allowed, _) => !new_allowed,
            (Mode::Any, new_allowed, _) => new_allowed,
        }
    }
}
