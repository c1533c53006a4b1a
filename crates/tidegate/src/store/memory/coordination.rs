//! Readings that nodes share through a store in memory. Twin: `lua/adaptive.lua`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use tidegate_core::Timestamp;

use crate::store::coordination::{NODES_MAX, TICKS_KEPT, is_current};
use crate::store::{
    KeptState, ReadingReport, StateUpdate, StoreError, StoreErrorKind, TickReadings,
};
use crate::sync::lock;

const SCOPES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct MemoryReadings(Mutex<HashMap<Box<str>, Scope>>);

#[derive(Debug, Default)]
struct Scope {
    /// By node. A step is made of the readings of the tick before.
    readings: BTreeMap<u64, NodeReadings>,
    kept: Option<KeptState>,
}

/// The tick, and the reading as text.
type Reading = (u64, String);

/// The last two readings of a node.
#[derive(Debug)]
struct NodeReadings {
    last: Reading,
    before: Option<Reading>,
}

impl MemoryReadings {
    pub(super) fn report(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> Result<TickReadings, StoreError> {
        report.validate()?;
        let mut scopes = lock(&self.0);
        if scopes.len() >= SCOPES_MAX && !scopes.contains_key(report.scope) {
            return Err(StoreError::new(StoreErrorKind::Overloaded, "readings of too many scopes"));
        }
        let scope = scopes.entry(report.scope.into()).or_default();
        let tick = now.as_micros() / report.tick_us();
        scope.note(report.node, (tick, report.reading.to_owned()));
        let kept = scope.kept.clone();
        let current = kept.as_ref().is_some_and(|kept| is_current(kept.tick, tick));
        let readings = (!current).then(|| scope.gather(tick));
        Ok(TickReadings { now, tick, kept, readings })
    }

    pub(super) fn keep(&self, update: &StateUpdate<'_>) -> Result<bool, StoreError> {
        update.validate()?;
        let mut scopes = lock(&self.0);
        let Some(scope) = scopes.get_mut(update.scope) else { return Ok(false) };
        let keeps = scope.kept.as_ref().map(|kept| kept.tick) == update.before;
        if keeps {
            scope.kept = Some(KeptState { tick: update.tick, text: update.text.to_owned() });
        }
        Ok(keeps)
    }
}

impl Scope {
    fn note(&mut self, node: u64, reading: Reading) {
        if let Some(reported) = self.readings.get_mut(&node) {
            if reported.last.0 != reading.0 {
                reported.before = Some(std::mem::take(&mut reported.last));
            }
            reported.last = reading;
        } else if self.readings.len() < NODES_MAX {
            self.readings.insert(node, NodeReadings { last: reading, before: None });
        }
    }

    /// What was reported in the tick before this one. Drops nodes that have not reported for long.
    fn gather(&mut self, tick: u64) -> Vec<Reading> {
        let kept = tick.saturating_sub(TICKS_KEPT)..=tick;
        self.readings.retain(|_, reported| kept.contains(&reported.last.0));
        let reading = |reported: &NodeReadings| {
            let mut both = [Some(&reported.last), reported.before.as_ref()].into_iter().flatten();
            both.find(|(at, _)| at + 1 == tick).map(|(_, reading)| reading.clone())
        };
        self.readings
            .iter()
            .filter_map(|(node, reported)| Some((*node, reading(reported)?)))
            .collect()
    }
}
