//! The readings of a scope as a value: kept in memory, or as bytes in a store that keeps bytes. Twin: `lua/adaptive.lua`.

use std::collections::BTreeMap;

use tidegate_core::Timestamp;

use super::{
    KeptState, NODES_MAX, ReadingReport, StateUpdate, TICKS_KEPT, TickReadings, is_current,
};
use crate::store::parts::{PartReader, push_part};

/// What all nodes have reported about one scope of late, and what was made of it last.
///
/// ```
/// use std::time::Duration;
/// use tidegate::store_kit::ReadingsRecord;
/// use tidegate::{ReadingReport, StateUpdate, Timestamp};
///
/// let (mut record, tick) = (ReadingsRecord::default(), Duration::from_secs(1));
/// let report = ReadingReport { scope: "db", tick, node: 7, reading: "0.25" };
/// assert_eq!(record.report(&report, Timestamp::from_micros(5_300_000)).readings, Some(vec![]));
/// let mut read = ReadingsRecord::from_bytes(&record.to_bytes()).expect("just written");
/// let next = read.report(&report, Timestamp::from_micros(6_300_000));
/// assert_eq!(next.readings, Some(vec![(7, "0.25".to_owned())]));
/// let update = StateUpdate { scope: "db", tick: next.tick, before: None, text: "0.25 of it" };
/// assert!(read.keep(&update) && !read.keep(&update)); // only once
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadingsRecord {
    /// By node. A step is made of the readings of the tick before.
    readings: BTreeMap<u64, NodeReadings>,
    kept: Option<KeptState>,
}

/// The tick, and the reading as text.
type Reading = (u64, String);

/// The last two readings of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NodeReadings {
    last: Reading,
    before: Option<Reading>,
}

impl ReadingsRecord {
    /// Notes a report that is [valid](ReadingReport::validate), and answers what the nodes reported in the tick before.
    pub fn report(&mut self, report: &ReadingReport<'_>, now: Timestamp) -> TickReadings {
        let tick = now.as_micros() / report.tick_us();
        self.note(report.node, (tick, report.reading.to_owned()));
        let kept = self.kept.clone();
        let current = kept.as_ref().is_some_and(|kept| is_current(kept.tick, tick));
        let readings = (!current).then(|| self.gather(tick));
        TickReadings { now, tick, kept, readings }
    }

    /// Keeps a state that is [valid](StateUpdate::validate), unless another one was kept since.
    pub fn keep(&mut self, update: &StateUpdate<'_>) -> bool {
        let keeps = self.kept.as_ref().map(|kept| kept.tick) == update.before;
        if keeps {
            self.kept = Some(KeptState { tick: update.tick, text: update.text.to_owned() });
        }
        keeps
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.kept.is_some())];
        if let Some(kept) = &self.kept {
            push_reading(&mut bytes, kept.tick, &kept.text);
        }
        for (node, NodeReadings { last, before }) in &self.readings {
            bytes.extend_from_slice(&node.to_le_bytes());
            push_reading(&mut bytes, last.0, &last.1);
            bytes.push(u8::from(before.is_some()));
            if let Some(before) = before {
                push_reading(&mut bytes, before.0, &before.1);
            }
        }
        bytes
    }

    /// Reads its bytes, of which there are none before the first report. `None` if they are of something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut record = Self::default();
        if bytes.is_empty() {
            return Some(record);
        }
        let mut reader = PartReader::new(bytes);
        if reader.byte()? == 1 {
            let (tick, text) = read_reading(&mut reader)?;
            record.kept = Some(KeptState { tick, text });
        }
        while !reader.is_empty() {
            let (node, last) = (reader.word()?, read_reading(&mut reader)?);
            let before = if reader.byte()? == 1 { Some(read_reading(&mut reader)?) } else { None };
            record.readings.insert(node, NodeReadings { last, before });
        }
        Some(record)
    }

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

fn push_reading(bytes: &mut Vec<u8>, tick: u64, text: &str) {
    bytes.extend_from_slice(&tick.to_le_bytes());
    push_part(bytes, text.as_bytes());
}

fn read_reading(reader: &mut PartReader<'_>) -> Option<Reading> {
    Some((reader.word()?, reader.text()?.to_owned()))
}
