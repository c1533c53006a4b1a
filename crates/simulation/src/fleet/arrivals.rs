//! Which checks arrive, when, and at which node.

use tidegate_core::Limit;

use super::FleetSettings;
use crate::rng::{Rng, Zipf};
use crate::{START_US, index, micros};

/// One key on one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeKey {
    pub(super) node: usize,
    pub(super) key: usize,
}

/// Checks in the order of their instants.
pub(super) type Arrivals = Box<dyn Iterator<Item = (u64, NodeKey)>>;

/// Where the first window begins.
pub(super) fn start_us(limit: &Limit) -> u64 {
    let period_us = micros(limit.period()).max(1);
    START_US.next_multiple_of(period_us.min(86_400_000_000))
}

/// Checks at random instants; some nodes are busier than others.
pub(super) fn random(settings: &FleetSettings, limit: &Limit) -> Arrivals {
    let &FleetSettings { keys, nodes, demand_milli, .. } = settings;
    let start_us = start_us(limit);
    let end_us = start_us + settings.duration_us;
    // The mean gap between checks and the next one's instant, in units of 2^−20 µs.
    let per_period = u128::from(limit.units()) * u128::from(demand_milli * keys);
    let gap = ((limit.period().as_micros() * 1000) << 20) / per_period;
    let mut next = u128::from(start_us) << 20;
    let (busy, mut rng) = (Zipf::new(nodes), Rng::new(settings.seed, 1));
    Box::new(std::iter::from_fn(move || {
        next += (gap * u128::from(rng.exponential())) >> 32;
        let at_us = u64::try_from(next >> 20).unwrap_or(u64::MAX);
        if at_us >= end_us {
            return None;
        }
        let key = index(rng.below(keys));
        // Another node is the busiest for another key.
        let node = (busy.draw(&mut rng) + 17 * key) % index(nodes);
        Some((at_us, NodeKey { node, key }))
    }))
}

/// The given checks: µs since the start, sorted, and the node.
pub(super) fn given(checks: &[(u64, usize)], limit: &Limit) -> Arrivals {
    let start_us = start_us(limit);
    let check = |&(after_us, node)| (start_us + after_us, NodeKey { node, key: 0 });
    Box::new(checks.iter().map(check).collect::<Vec<_>>().into_iter())
}
