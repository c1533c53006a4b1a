//! Nodes share their demands through the store once per tick: the first one of a tick pours the limit over what all nodes
//! were asked for in the tick before, and the others read its level.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use tidegate_core::Timestamp;
use tidegate_core::share::{Demand, Level, Tenants};

use super::{Capacity, Divided};
use crate::clock::micros;
use crate::store::{
    Coordination, ReadingReport, StateUpdate, Store, StoreError, StoreResult, TickReadings,
};
use crate::sync::lock;

/// The tenants that all nodes report together, so that a store handles a few hundred kilobytes at most. Of those of a node
/// that do not fit, the least busy are reported as one.
const REPORTED_MAX: usize = 4_000;
const REPORTED_MIN: usize = 16;

/// What all tenants may use: the text of no level.
const WHOLE: &str = "whole";
/// The text of no demands: a reading is never empty.
const NOTHING: &str = "-";
/// Begins what is left of the shared limit. No fingerprint, so that who does not know it skips it.
const LEFT: &str = "left.";

/// What a node asks the others about.
pub(super) struct Asked {
    pub(super) reading: String,
    /// What comes in of the shared limit.
    pub(super) come_in: Capacity,
    /// What holds if they cannot be asked, and what it divides.
    pub(super) own: Agreed,
    pub(super) now: Timestamp,
}

/// A level, and what it divides.
type Agreed = (Option<Level>, Capacity);

/// Asks the others. A store that answers at once has been asked when this returns; otherwise a task of the runtime waits,
/// and without one this node goes by what it sees itself.
pub(super) fn start(divided: &Arc<Divided>, store: Arc<dyn Store>, asked: Asked) {
    let (own, now) = (asked.own, asked.now);
    let waiting = divided.clone();
    let mut exchange: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(async move {
        let agreed = waiting.exchange(&*store, &asked).await;
        waiting.adopt(agreed.unwrap_or(asked.own), asked.now);
    });
    if exchange.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        && !spawn(exchange)
    {
        divided.adopt(own, now);
    }
}

#[cfg(any(feature = "adaptive", feature = "breaker", feature = "leases"))]
fn spawn(exchange: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
    let runtime = tokio::runtime::Handle::try_current();
    runtime.map(|runtime| runtime.spawn(exchange)).is_ok()
}

#[cfg(not(any(feature = "adaptive", feature = "breaker", feature = "leases")))]
fn spawn(_: Pin<Box<dyn Future<Output = ()> + Send>>) -> bool {
    false
}

impl Divided {
    async fn exchange(&self, store: &dyn Store, asked: &Asked) -> Result<Agreed, StoreError> {
        let (own_level, own_capacity) = asked.own;
        let reply = self.report(store, asked).await?;
        self.keep_time(reply.now, asked.now);
        let (readings, kept) = match (reply.readings, reply.kept) {
            (Some(readings), kept) if !readings.is_empty() => (readings, kept),
            (None, Some(kept)) => {
                return Ok((read_level(&kept.text).unwrap_or(own_level), own_capacity));
            }
            _ => return Ok(asked.own),
        };
        let capacity = asked.come_in.with_left(least_left(&readings));
        let demands = merge(&readings).into_values();
        let demands = demands.map(|demand| capacity.demand(demand, NonZeroU32::MIN));
        let level = Level::find(demands, capacity.units);
        let (text, before) = (write_level(level), kept.map(|kept| kept.tick));
        let update = StateUpdate { scope: &self.scope, tick: reply.tick, before, text: &text };
        // If another node was first, it has made the same of the same readings.
        store.extensions().keep_state(&update, asked.now).await?;
        Ok((level, capacity))
    }

    fn report(&self, store: &dyn Store, asked: &Asked) -> StoreResult<TickReadings> {
        let (scope, tick, reading) = (&*self.scope, Tenants::TICK, &*asked.reading);
        let report = ReadingReport { scope, tick, node: self.node, reading };
        store.extensions().report_reading(&report, asked.now)
    }

    fn adopt(&self, (level, capacity): Agreed, now: Timestamp) {
        let mut state = lock(&self.state);
        state.asked_at = None;
        state.set_level(level, capacity, now);
    }

    /// Ends ticks so that this node reports in the middle of a tick of the store: near an edge, two reports could fall into
    /// one tick.
    fn keep_time(&self, of_store: Timestamp, now: Timestamp) {
        let middle_us = micros(Tenants::TICK) / 2;
        let ahead_us = i128::from(of_store.as_micros()) - i128::from(now.as_micros() + middle_us);
        // A clock that is centuries off is not worth keeping up with.
        lock(&self.state).ahead_us = i64::try_from(ahead_us).unwrap_or_default();
    }
}

/// Demands as text, the busiest first: `fingerprint.units.weight`, all hexadecimal. And what is left of the shared limit.
pub(super) fn write(
    demands: impl Iterator<Item = (u64, Demand)>,
    nodes: NonZeroU32,
    rest_weight: u32,
    left: Option<u64>,
) -> String {
    let mut demands: Vec<_> = demands.filter(|(_, demand)| demand.units > 0).collect();
    demands.sort_unstable_by_key(|(tenant, demand)| (std::cmp::Reverse(demand.units), *tenant));
    let share = REPORTED_MAX / usize::try_from(nodes.get()).unwrap_or(usize::MAX);
    let rest = demands.split_off(share.max(REPORTED_MIN).min(demands.len()));
    if !rest.is_empty() {
        let units = rest.iter().fold(0, |sum: u64, (_, it)| sum.saturating_add(it.units));
        demands.push((Tenants::REST, Demand { units, weight: rest_weight }));
    }
    let one = |(tenant, Demand { units, weight }): &(u64, Demand)| {
        format!("{tenant:x}.{units:x}.{weight:x}")
    };
    let left = left.map(|units| format!("{LEFT}{units:x}"));
    let text = left.into_iter().chain(demands.iter().map(one)).collect::<Vec<_>>().join(",");
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

/// What is left of the shared limit: of several nodes, the one that knows of the least knows best. Earlier versions do not
/// say.
fn least_left(readings: &[(u64, String)]) -> Option<u64> {
    let left = readings
        .iter()
        .flat_map(|(_, text)| text.split(','))
        .filter_map(|text| text.strip_prefix(LEFT));
    left.filter_map(|units| u64::from_str_radix(units, 16).ok()).min()
}

/// The demands of all nodes, by tenant. What cannot be read is left out.
fn merge(readings: &[(u64, String)]) -> HashMap<u64, Demand> {
    let mut all: HashMap<u64, Demand> = HashMap::new();
    for (tenant, demand) in readings.iter().flat_map(|(_, text)| text.split(',')).filter_map(read) {
        let sum = all.entry(tenant).or_default();
        sum.units = sum.units.saturating_add(demand.units);
        sum.weight = sum.weight.max(demand.weight);
    }
    all
}

fn read(text: &str) -> Option<(u64, Demand)> {
    let mut numbers = text.splitn(3, '.').map(|text| u64::from_str_radix(text, 16).ok());
    let (tenant, units, weight) = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some((tenant, Demand { units, weight: u32::try_from(weight).ok()? }))
}

fn write_level(level: Option<Level>) -> String {
    level
        .map(|level| level.fraction())
        .map_or_else(|| WHOLE.to_owned(), |(units, weights)| format!("{units:x}.{weights:x}"))
}

/// `None` if it is something else.
#[expect(clippy::option_option, reason = "no level is a level that was agreed upon")]
fn read_level(text: &str) -> Option<Option<Level>> {
    if text == WHOLE {
        return Some(None);
    }
    let (units, weights) = text.split_once('.')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Level::from_fraction(number(units)?, number(weights)?).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn demand(units: u64, weight: u32) -> Demand {
        Demand { units, weight }
    }

    fn write_for(nodes: u32, demands: &[(u64, Demand)]) -> String {
        write(demands.iter().copied(), NonZeroU32::new(nodes).unwrap(), 1, Some(u64::MAX))
    }

    #[test]
    fn demands_of_nodes_add_up() {
        let first = write_for(2, &[(0xabc, demand(16, 4)), (7, demand(3, 1)), (9, demand(0, 1))]);
        assert_eq!(first, "left.ffffffffffffffff,abc.10.4,7.3.1");
        let readings = [
            (1, first),
            (2, "7.5.2,nonsense,7.1,left.x,left.1f".to_owned()),
            (3, write_for(2, &[])),
        ];
        assert_eq!((least_left(&readings), least_left(&[])), (Some(31), None));
        let expected = HashMap::from([(0xabc, demand(16, 4)), (7, demand(8, 2))]);
        assert_eq!(merge(&readings), expected);
    }

    #[test]
    fn a_report_is_bounded_and_loses_nothing() {
        let most = demand(1 << 53, Share::WEIGHT_MAX);
        let demands: Vec<_> = (0..=1_000).map(|n| ((1 << 48) - 1 - n, most)).collect();
        for nodes in [1, 4, 100, 10_000] {
            let text = write_for(nodes, &demands);
            let report = ReadingReport { scope: "", tick: Tenants::TICK, node: 1, reading: &text };
            assert_eq!(report.validate(), Ok(()), "{nodes} nodes, {} bytes", text.len());
            let sum: u64 = merge(&[(1, text)]).values().map(|it| it.units).sum();
            assert_eq!(sum, 1_001 << 53, "{nodes} nodes");
        }
    }

    #[test]
    fn levels_come_back_as_they_were() {
        for level in [None, Level::from_fraction(1 << 53, 7)] {
            assert_eq!(read_level(&write_level(level)), Some(level));
        }
        for nonsense in ["", "1", "1.", "1.0", "-1.1", "x.1"] {
            assert_eq!(read_level(nonsense), None, "{nonsense}");
        }
    }

    use crate::policy::Share;
}
