//! A counter that starts afresh at an edge: what fixed windows and calendar quotas share.

use super::Term;
use crate::decision::Decision;
use crate::state::{Change, State, Window};
use crate::time::Timestamp;

/// The ends of the window that holds now, and of the one after it, in µs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edges {
    pub(crate) end: u64,
    pub(crate) next_end: u64,
}

/// The count in force at `now`, and whether it had to be repaired.
#[inline]
fn in_force(edges: Edges, stored: Option<Window>, now: Timestamp) -> (Window, bool) {
    let fresh = Window { end: edges.end, count: 0 };
    let Some(stored) = stored else { return (fresh, false) };
    if stored.end <= now.as_micros() {
        (fresh, false)
    } else if stored.end <= edges.next_end {
        // The clock stepped back over one edge: the count of the next window stays in force.
        (Window { end: stored.end.max(edges.end), count: stored.count }, false)
    } else {
        (Window { end: edges.end, count: stored.count }, true)
    }
}

#[inline]
pub(crate) fn decide(
    limit: u64,
    edges: Edges,
    stored: Option<Window>,
    now: Timestamp,
    cost: u64,
) -> (Decision, Option<Window>) {
    let (window, repaired) = in_force(edges, stored, now);
    let reset_after_us = window.end - now.as_micros();
    let left = limit.saturating_sub(window.count);
    if cost <= left || cost == 0 {
        let decision = Decision::admitted(limit, left - cost, reset_after_us);
        let next = Window { end: window.end, count: window.count + cost };
        return (decision, (cost > 0 || repaired).then_some(next));
    }
    let retry = if cost > limit { None } else { Some(reset_after_us) };
    (Decision::refused(limit, left, retry, reset_after_us), repaired.then_some(window))
}

/// A lease ends with the window that pays for it. After a step back over an edge that is not the window of now,
/// and the units cannot be told from those of the window of now: they are not given back.
pub(crate) fn term(edges: Edges, state: &State, now: Timestamp) -> Term {
    let (window, _) = in_force(edges, state.window(), now);
    Term { ends_after_us: window.end - now.as_micros(), returnable: window.end == edges.end }
}

/// Units come back to the window that paid for them, if it is still the one stored and can be in force.
pub(crate) fn give_back(edges: Edges, granted: Edges, state: &State, units: u64) -> Change {
    let in_force = granted.end == edges.end || granted.end == edges.next_end;
    let stored = state.window().filter(|stored| in_force && stored.end == granted.end);
    let less = |stored: Window| Window { count: stored.count.saturating_sub(units), ..stored };
    Change::window(stored.map(less))
}

pub(crate) fn refund(edges: Edges, state: &State, now: Timestamp, amount: u64) -> Change {
    let (window, _) = in_force(edges, state.window(), now);
    Change::window(Some(Window { count: window.count.saturating_sub(amount), ..window }))
}
