//! Which checks come, when, and to whom.

use tidegate_core::Limit;

use super::setting::Setting;
use super::world::{Place, start_us};
use crate::chance::{Chance, Zipf};

/// Checks in the order of their instants.
pub(super) enum Arrivals {
    /// At random, and some nodes are busier than others.
    Drawn(Drawn),
    /// As somebody else has drawn them.
    Given(std::vec::IntoIter<(u64, Place)>),
}

pub(super) struct Drawn {
    /// The mean gap between checks and the next one's instant, in units of 2^−20 µs.
    gap: u128,
    next: u128,
    end_us: u64,
    keys: u64,
    nodes: usize,
    busy: Zipf,
    chance: Chance,
}

impl Arrivals {
    pub(super) fn draw(setting: &Setting, limit: &Limit) -> Self {
        let start_us = start_us(limit);
        let per_period =
            u128::from(limit.units()) * u128::from(setting.demand_milli * setting.keys);
        Self::Drawn(Drawn {
            gap: ((limit.period().as_micros() * 1000) << 20) / per_period,
            next: u128::from(start_us) << 20,
            end_us: start_us + setting.duration_us,
            keys: setting.keys,
            nodes: usize::try_from(setting.nodes).unwrap_or(usize::MAX),
            busy: Zipf::new(setting.nodes),
            chance: Chance::new(setting.seed, 1),
        })
    }

    /// Instants are counted from the start, and in order; nodes are numbers below that of the setting.
    pub(super) fn given(checks: &[(u64, usize)], limit: &Limit) -> Self {
        let start_us = start_us(limit);
        let place = |&(after_us, node)| (start_us + after_us, Place { node, key: 0 });
        Self::Given(checks.iter().map(place).collect::<Vec<_>>().into_iter())
    }

    pub(super) fn next(&mut self) -> Option<(u64, Place)> {
        match self {
            Self::Drawn(drawn) => drawn.next(),
            Self::Given(given) => given.next(),
        }
    }
}

impl Drawn {
    fn next(&mut self) -> Option<(u64, Place)> {
        self.next += (self.gap * u128::from(self.chance.exponential())) >> 32;
        let at_us = u64::try_from(self.next >> 20).unwrap_or(u64::MAX);
        if at_us >= self.end_us {
            return None;
        }
        let key = self.chance.below(self.keys);
        let rank = self.busy.draw(&mut self.chance);
        // Another node is the busiest for another key.
        let key = usize::try_from(key).unwrap_or(0);
        let node = (rank + 17 * key) % self.nodes;
        Some((at_us, Place { node, key }))
    }
}
