//! Naive caching: a node counts what it admits at once, and what others admit when it hears of it.

use tidegate_core::{FixedWindow, Limit, State, Timestamp};

use crate::START_US;

/// What a node knows.
#[derive(Clone, Default)]
struct Copy {
    state: State,
    /// How much of the others is in it.
    others: u64,
    /// How much of its own the others have heard of.
    told: u64,
    admitted: u64,
}

/// What each node admits of requests in one window: the µs since its start, and the node, in order.
pub(super) fn admitted(
    window: &FixedWindow,
    nodes: u64,
    interval_us: u64,
    requests: &[(u64, usize)],
) -> Vec<u64> {
    let limit = Limit::from(*window);
    let period_us = u64::try_from(window.period().as_micros()).unwrap_or(u64::MAX);
    let start_us = START_US.next_multiple_of(period_us);
    let mut copies = vec![Copy::default(); usize::try_from(nodes).unwrap_or(0)];
    // All that was admitted, in order, and how much of it is old enough to be heard of.
    let mut log: Vec<(u64, usize)> = Vec::new();
    let mut heard = 0;
    for &(at_us, node) in requests {
        while let Some(&(then_us, teller)) = log.get(heard)
            && then_us + interval_us <= at_us
        {
            copies[teller].told += 1;
            heard += 1;
        }
        let now = Timestamp::from_micros(start_us + at_us);
        let copy = &mut copies[node];
        copy.hear(&limit, now, u64::try_from(heard).unwrap_or(u64::MAX) - copy.told);
        if limit.take(&mut copy.state, now, 1).allowed() {
            copy.admitted += 1;
            log.push((at_us, node));
        }
    }
    copies.iter().map(|copy| copy.admitted).collect()
}

impl Copy {
    fn hear(&mut self, limit: &Limit, now: Timestamp, others: u64) {
        let news = others - std::mem::replace(&mut self.others, others);
        let left = limit.peek(&self.state, now, 0).remaining();
        // What does not fit was admitted all the same; a counter cannot say more than full.
        let _ = limit.take(&mut self.state, now, news.min(left));
    }
}
