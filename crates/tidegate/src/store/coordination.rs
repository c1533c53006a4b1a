//! Nodes coordinate through a store, once per tick: each reports what it measured, and one keeps the resulting state.

mod record;

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use tidegate_core::Timestamp;

pub use self::record::ReadingsRecord;
use super::{StoreError, StoreResult};
use crate::clock::micros;

/// Bounds of what is reported and kept: the demands of a thousand tenants fit, and what a controller remembers of sixteen
/// signals.
const READING_BYTES_MAX: usize = 40_960;
const STATE_BYTES_MAX: usize = 8192;

/// Readings of nodes beyond this number are ignored: a store reads all of them in one step, and a thousand take it two
/// milliseconds.
const NODES_MAX: usize = 1_000;

/// A node that has not reported for this many ticks is forgotten; a report from further ahead is by another clock.
const TICKS_KEPT: u64 = 10;

/// A store through which nodes share readings, and which knows how many nodes there are.
///
/// ```
/// use tidegate::{Coordination, MemoryStore, Store};
///
/// let store = MemoryStore::default();
/// let coordination: Option<&dyn Coordination> = store.extensions().coordination;
/// assert!(coordination.is_some_and(|it| it.nodes().is_none())); // this process alone
/// ```
pub trait Coordination: Send + Sync + fmt::Debug {
    /// Reports what this node measured in a tick, and answers what the others did: see [`ReadingReport`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Coordination, MemoryStore, ReadingReport, Timestamp};
    /// let report = ReadingReport { scope: "db", tick: Duration::from_secs(1), node: 7, reading: "0.25" };
    /// let readings = MemoryStore::default().report_reading(&report, Timestamp::from_micros(5_300_000)).now()?;
    /// assert_eq!((readings.tick, readings.kept, readings.readings), (5, None, Some(vec![])));
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> StoreResult<TickReadings>;

    /// Keeps the state that follows from the readings of a tick, unless another node was first.
    ///
    /// ```
    /// # use tidegate::{Coordination, MemoryStore, StateUpdate, Timestamp};
    /// let update = StateUpdate { scope: "db", tick: 5, before: None, text: "0.25 of it" };
    /// assert!(!MemoryStore::default().keep_state(&update, Timestamp::EPOCH).now()?); // no readings yet
    /// # Ok::<(), tidegate::StoreError>(())
    /// ```
    fn keep_state(&self, update: &StateUpdate<'_>, now: Timestamp) -> StoreResult<bool>;

    /// How many nodes share the state, this one included: the last count that the store got.
    ///
    /// ```
    /// # use tidegate::{Coordination, MemoryStore};
    /// assert_eq!(MemoryStore::default().nodes(), None); // no other process can see it
    /// ```
    fn nodes(&self) -> Option<NonZeroU32> {
        None
    }
}

/// What a node has measured in the last tick, shared with all nodes of the store.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{StateUpdate, MemoryStore, Coordination, ReadingReport, Timestamp, TickReadings};
///
/// let (store, tick) = (MemoryStore::default(), Duration::from_secs(1));
/// let at = |second: u64| Timestamp::from_micros(1_700_000_000_500_000 + 1_000_000 * second);
/// let report = |node, reading, second| {
///     store.report_reading(&ReadingReport { scope: "db", tick, node, reading }, at(second)).now()
/// };
/// report(1, "0.25", 0)?;
/// report(2, "0.75", 0)?;
/// // Who comes first in the next tick is given all of them, and keeps what it makes of them.
/// let first: TickReadings = report(1, "0.5", 1)?;
/// let all = [(1, "0.25".to_owned()), (2, "0.75".to_owned())];
/// assert_eq!((first.readings.as_deref(), first.kept), (Some(&all[..]), None));
/// let update = StateUpdate { scope: "db", tick: first.tick, before: None, text: "0.5 of it" };
/// assert!(store.keep_state(&update, at(1)).now()?);
/// assert!(!store.keep_state(&update, at(1)).now()?); // only once
/// // Who comes later reads it.
/// let second = report(2, "0.5", 1)?;
/// assert_eq!(second.readings, None);
/// assert_eq!(second.kept.map(|kept| kept.text), Some("0.5 of it".to_owned()));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadingReport<'a> {
    /// What it is about.
    pub scope: &'a str,
    /// How long a tick is, the same for all.
    pub tick: Duration,
    /// The node that reports.
    pub node: u64,
    /// What was read: up to 40 KiB without spaces.
    pub reading: &'a str,
}

/// What a store answers to a [`ReadingReport`].
///
/// ```
/// use std::time::Duration;
/// use tidegate::{MemoryStore, Coordination, ReadingReport, Timestamp, TickReadings};
///
/// let report = ReadingReport { scope: "db", tick: Duration::from_secs(1), node: 7, reading: "0.25" };
/// let now = Timestamp::from_micros(5_300_000);
/// let reply = MemoryStore::default().report_reading(&report, now).now()?;
/// assert_eq!(reply, TickReadings { now, tick: 5, kept: None, readings: Some(vec![]) });
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TickReadings {
    /// The store's time.
    pub now: Timestamp,
    /// Which tick it is, by that.
    pub tick: u64,
    /// What was kept last.
    pub kept: Option<KeptState>,
    /// What the nodes reported in the tick before, by node; `None` once something was kept in this tick.
    pub readings: Option<Vec<(u64, String)>>,
}

/// What a store keeps of a scope.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{StateUpdate, KeptState, MemoryStore, Coordination, ReadingReport, Timestamp};
///
/// let (store, now) = (MemoryStore::default(), Timestamp::from_micros(5_300_000));
/// let report = ReadingReport { scope: "db", tick: Duration::from_secs(1), node: 7, reading: "0.25" };
/// store.report_reading(&report, now).now()?;
/// store.keep_state(&StateUpdate { scope: "db", tick: 5, before: None, text: "0.25 of it" }, now).now()?;
/// let kept = store.report_reading(&report, now).now()?.kept;
/// assert_eq!(kept, Some(KeptState { tick: 5, text: "0.25 of it".to_owned() }));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptState {
    /// In which tick.
    pub tick: u64,
    /// What.
    pub text: String,
}

/// What came of the readings of a tick. Kept only if nothing was kept since: another node that made the same step loses nothing.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{StateUpdate, MemoryStore, Coordination, ReadingReport, Timestamp};
///
/// let (store, now) = (MemoryStore::default(), Timestamp::from_micros(5_300_000));
/// let report = ReadingReport { scope: "db", tick: Duration::from_secs(1), node: 7, reading: "0.25" };
/// store.report_reading(&report, now).now()?;
/// let first = StateUpdate { scope: "db", tick: 5, before: None, text: "0.25 of it" };
/// let next = StateUpdate { tick: 6, before: Some(5), ..first };
/// let kept = [first, first, next].map(|update| store.keep_state(&update, now).now());
/// assert_eq!(kept, [Ok(true), Ok(false), Ok(true)]);
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateUpdate<'a> {
    /// What it is about.
    pub scope: &'a str,
    /// The tick that it was made in.
    pub tick: u64,
    /// The tick of the state that it was made of.
    pub before: Option<u64>,
    /// What is kept: up to 8 KiB.
    pub text: &'a str,
}

impl ReadingReport<'_> {
    /// The length of a tick in microseconds, at least 1.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::ReadingReport;
    /// let report = ReadingReport { scope: "db", tick: Duration::from_secs(1), node: 7, reading: "0.25" };
    /// assert_eq!(report.tick_us(), 1_000_000);
    /// ```
    pub fn tick_us(&self) -> u64 {
        micros(self.tick).max(1)
    }

    /// Checks its bounds: every store accepts the same.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::ReadingReport;
    /// let report = ReadingReport { scope: "db", tick: Duration::from_secs(1), node: 7, reading: "" };
    /// assert!(report.validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<(), StoreError> {
        let reading = self.reading;
        let has_space = reading.contains(char::is_whitespace);
        if reading.is_empty() || reading.len() > READING_BYTES_MAX || has_space {
            let why = "a reading has 1 to 40960 bytes, and no space";
            return Err(StoreError::bad_request(why));
        }
        Ok(())
    }
}

impl StateUpdate<'_> {
    /// Checks its bounds: every store accepts the same.
    ///
    /// ```
    /// # use tidegate::StateUpdate;
    /// let update = StateUpdate { scope: "db", tick: 5, before: None, text: "0.25 of it" };
    /// assert_eq!(update.validate(), Ok(()));
    /// ```
    pub fn validate(&self) -> Result<(), StoreError> {
        if self.text.len() > STATE_BYTES_MAX {
            return Err(StoreError::bad_request("a state has at most 8192 bytes"));
        }
        Ok(())
    }
}

/// Whether what was kept in one tick still counts in another: a clock that stepped back by more has lost count.
const fn is_current(kept: u64, tick: u64) -> bool {
    kept >= tick && kept <= tick.saturating_add(TICKS_KEPT)
}
