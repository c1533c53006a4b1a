//! Adaptive limits that nodes share: each reports its readings, one makes a step from them, all adopt it.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{FleetReadings, NodeReading, Reading, Settings, State};

use super::TICK;
use super::governor::Governor;
use crate::clock::micros;
use crate::store::{
    Coordination, KeptState, ReadingReport, StateUpdate, Store, StoreResult, TickReadings,
};

pub(super) struct Sharing {
    store: Arc<dyn Store>,
    node: u64,
}

/// A governor whose readings are reported, and the store's answer.
struct ReportedGovernor<'a> {
    governor: &'a Governor,
    scope: String,
    readings: Vec<(Reading, u64)>,
    reply: StoreResult<TickReadings>,
}

impl Sharing {
    pub(super) fn over(store: Arc<dyn Store>) -> Self {
        Self { store, node: RandomState::new().hash_one(0) }
    }

    /// One tick of all governors. Returns how long to wait, so that this node reports in the middle of the next tick by the
    /// store's clock: near an edge, two reports could fall into one tick.
    pub(super) async fn step(
        &self,
        governors: &[Arc<Governor>],
        cpu: Reading,
        now: Timestamp,
    ) -> Duration {
        // All are sent before the first is awaited.
        let asked: Vec<_> = governors.iter().map(|it| self.report(it, cpu, now)).collect();
        let mut wait = TICK;
        for ReportedGovernor { governor, scope, readings, reply } in asked {
            let agreed = match reply.await {
                Ok(reply) => {
                    wait = self.until_next(reply.now);
                    self.agree(governor, &scope, reply, now).await
                }
                Err(_) => None,
            };
            match agreed {
                Some((state, tick)) => governor.agree(state, tick),
                None => governor.step(&readings, now),
            }
        }
        wait
    }

    fn report<'a>(
        &self,
        governor: &'a Governor,
        cpu: Reading,
        now: Timestamp,
    ) -> ReportedGovernor<'a> {
        let (scope, readings) = (scope_of(governor), governor.readings(cpu));
        let text = write(&readings);
        let report = ReadingReport { scope: &scope, tick: TICK, node: self.node, reading: &text };
        let reply = self.store.extensions().report_reading(&report, now);
        ReportedGovernor { governor, scope, readings, reply }
    }

    /// The state for this tick: the one kept in the store, or a step from the readings.
    async fn agree(
        &self,
        governor: &Governor,
        scope: &str,
        reply: TickReadings,
        now: Timestamp,
    ) -> Option<(State, u64)> {
        let settings = &governor.rule.settings;
        let kept = reply.kept.as_ref().and_then(|kept| read_state(kept, settings));
        let Some(readings) = reply.readings else { return kept };
        let gathered = gather(&readings, settings, reply.tick);
        // The beginning of the tick: the same for all who make this step.
        let at = Timestamp::from_micros(reply.tick.saturating_mul(micros(TICK)));
        let before = reply.kept.as_ref().map(|kept| kept.tick);
        let next = governor.stepped(kept.clone().map(|(state, _)| state), &gathered, at);
        let text = hex(&next.to_bytes());
        let update = StateUpdate { scope, tick: reply.tick, before, text: &text };
        match self.store.extensions().keep_state(&update, now).await {
            Ok(true) => Some((next, reply.tick)),
            // Another node was first: its state is read in the next tick, and the one kept before holds until then.
            Ok(false) => kept,
            Err(_) => None,
        }
    }

    fn until_next(&self, now: Timestamp) -> Duration {
        let tick_us = micros(TICK);
        let into_us = now.as_micros() % tick_us;
        // Somewhere in its middle half, each node at another time.
        let at_us = tick_us / 4 + self.node % (tick_us / 2);
        Duration::from_micros(tick_us - into_us + at_us).min(2 * TICK)
    }
}

/// Contains the settings, so that only nodes with the same settings share readings.
fn scope_of(governor: &Governor) -> String {
    let settings = format!("{:?}", governor.rule.settings);
    let hash = rapidhash::v3::rapidhash_v3(settings.as_bytes());
    format!("{hash:016x} {}", governor.name)
}

/// Combines the readings of one tick, by node, into one per chain: the median of all nodes.
fn gather(readings: &[(u64, String)], settings: &Settings, tick: u64) -> Vec<Reading> {
    let chains = settings.chains();
    let mut gathered = vec![FleetReadings::default(); chains.len()];
    for (node, text) in readings {
        let Some(reported) = read(text).filter(|reported| reported.len() == chains.len()) else {
            continue;
        };
        for (gathered, (reading, weight)) in gathered.iter_mut().zip(reported) {
            gathered.note(*node, NodeReading { tick, reading, weight });
        }
    }
    let each = gathered.iter().zip(chains);
    each.map(|(gathered, chain)| gathered.reading(chain.signal(), tick)).collect()
}

/// `v` and its bits, `m` for missing, `f` for failed; then the weight. Bits, so that every node reads the same number.
fn write(readings: &[(Reading, u64)]) -> String {
    let one = |(reading, weight): &(Reading, u64)| match reading {
        Reading::Value(value) => format!("v{:x}:{weight}", value.to_bits()),
        Reading::Missing => format!("m:{weight}"),
        Reading::Failed => format!("f:{weight}"),
    };
    readings.iter().map(one).collect::<Vec<_>>().join(",")
}

fn read(text: &str) -> Option<Vec<(Reading, u64)>> {
    let one = |text: &str| {
        let (reading, weight) = text.split_once(':')?;
        let reading = match reading {
            "m" => Reading::Missing,
            "f" => Reading::Failed,
            value => {
                let bits = u64::from_str_radix(value.strip_prefix('v')?, 16).ok()?;
                Reading::Value(f64::from_bits(bits))
            }
        };
        Some((reading, weight.parse().ok()?))
    };
    text.split(',').map(one).collect()
}

fn read_state(kept: &KeptState, settings: &Settings) -> Option<(State, u64)> {
    let digits = kept.text.as_bytes().as_chunks::<2>().0;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits.iter().map(byte).collect::<Option<Vec<u8>>>()?;
    Some((State::from_bytes(&bytes, settings).ok()?, kept.tick))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_come_back_as_they_were() {
        let readings = [
            (Reading::Value(0.1), 7),
            (Reading::Value(f64::INFINITY), 0),
            (Reading::Missing, 1),
            (Reading::Failed, u64::MAX),
        ];
        assert_eq!(read(&write(&readings)).as_deref(), Some(&readings[..]));
        assert!(!write(&readings).contains(' '));
        for nonsense in ["", "v", "v1", "vx:1", "q:1", "v1:-1", "m:1,"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn nodes_tell_in_the_middle_of_a_tick() {
        for node in [0, 1, 499_999, 500_000, u64::MAX] {
            let sharing = Sharing { store: Arc::new(crate::MemoryStore::default()), node };
            for now_us in [0, 1, 250_000, 999_999, 1_700_000_000_750_001] {
                let next = now_us
                    + u64::try_from(sharing.until_next(Timestamp::from_micros(now_us)).as_micros())
                        .unwrap();
                assert_eq!(next / 1_000_000, now_us / 1_000_000 + 1, "{node} {now_us}");
                assert!((250_000..=750_000).contains(&(next % 1_000_000)), "{node} {now_us}");
            }
        }
    }
}
