//! What each tenant has asked for within the last second, in a table that a flood of made-up names cannot take over.

use std::collections::HashMap;
use std::time::Duration;

use super::Demand;
use crate::sightings::Sightings;
use crate::time::Timestamp;

/// Tenants beyond this number share one demand.
const TENANTS_MAX: usize = 1_000;
/// A new tenant gets an entry with its first request until so many have one, and then only with its third within
/// [`SIGHTED_WITHIN`]: made-up names are mostly seen once.
const FREE_MAX: usize = TENANTS_MAX / 2;
const SIGHTED_WITHIN: Duration = Duration::from_secs(4);
const TICK_US: u64 = 250_000;
/// The ticks of the last second.
const TICKS: u64 = 4;
/// These, and the tick that is not over.
const SLOTS: usize = 5;

/// The demands of up to 1,000 tenants over the last second, by fingerprints of their names; all others share one. A tenant
/// has an entry for as long as it asks each second: newcomers push nobody out.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_core::share::{Demand, Tenants};
///
/// let (mut tenants, start) = (Tenants::default(), Timestamp::from_micros(1_700_000_000_000_000));
/// tenants.end_tick(start);
/// assert!(tenants.note(7, 4, 30, start)); // has an entry
/// assert!(!tenants.end_tick(start + Tenants::TICK / 2)); // not over
/// assert!(tenants.end_tick(start + Tenants::TICK));
/// assert_eq!(tenants.active(), 1);
/// assert!(tenants.demands(1_000).eq([(7, Demand { units: 30, weight: 4 })]));
/// assert!(tenants.end_tick(start + Duration::from_secs(2)));
/// assert_eq!(tenants.active(), 0); // it has not asked for a second
/// ```
#[derive(Clone, Debug)]
pub struct Tenants {
    known: HashMap<u64, Asked>,
    /// All without an entry together.
    rest: Option<Asked>,
    rest_weight: u32,
    sightings: Sightings,
    /// The number of the tick that is not over.
    tick: u64,
}

/// What one tenant asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// That of its latest request.
    weight: u32,
    /// By tick. Those since `last` are 0.
    units: [u64; SLOTS],
    last: u64,
}

impl Default for Tenants {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Tenants {
    /// No tenants yet. All without an entry together have this weight, whoever of them asks: a heavy newcomer would else
    /// make a flood of made-up names heavy.
    ///
    /// ```
    /// # use tidegate_core::{Timestamp, share::Tenants};
    /// let (mut tenants, now) = (Tenants::new(2), Timestamp::from_micros(1_700_000_000_000_000));
    /// tenants.end_tick(now);
    /// for tenant in 1..=2_000 {
    ///     tenants.note(tenant, 1_000, 5, now);
    /// }
    /// tenants.end_tick(now + Tenants::TICK);
    /// let rest = tenants.demands(1_000_000).find(|(tenant, _)| *tenant == Tenants::REST);
    /// assert_eq!(rest.map(|(_, demand)| demand.weight), Some(2));
    /// ```
    pub fn new(rest_weight: u32) -> Self {
        let sightings = Sightings::within(SIGHTED_WITHIN);
        Self { known: HashMap::new(), rest: None, rest_weight, sightings, tick: 0 }
    }

    /// How often demands are looked at.
    pub const TICK: Duration = Duration::from_micros(TICK_US);

    /// The fingerprint under which all tenants without an entry are counted. No tenant has it.
    ///
    /// ```
    /// # use tidegate_core::{Timestamp, share::Tenants};
    /// let (mut tenants, now) = (Tenants::default(), Timestamp::from_micros(1_700_000_000_000_000));
    /// tenants.end_tick(now);
    /// let noted = (1..=2_000).filter(|tenant| tenants.note(*tenant, 1, 5, now)).count();
    /// tenants.end_tick(now + Tenants::TICK);
    /// let rest = tenants.demands(1_000_000).find(|(tenant, _)| *tenant == Tenants::REST);
    /// assert_eq!(rest.map(|(_, demand)| demand.units), Some((2_000 - noted as u64) * 5));
    /// ```
    pub const REST: u64 = 0;

    /// The time over which demands are counted.
    ///
    /// ```
    /// # use tidegate_core::share::Tenants;
    /// assert!(Tenants::WINDOW.as_secs() == 1 && Tenants::TICK < Tenants::WINDOW);
    /// ```
    pub const WINDOW: Duration = Duration::from_micros(TICK_US * TICKS);

    /// Counts what a tenant asks for, admitted or not, and returns whether it has an entry of its own. If so, `weight`
    /// holds from now on.
    pub fn note(&mut self, tenant: u64, weight: u32, units: u64, now: Timestamp) -> bool {
        let (new, tick) = (Asked::new(self.tick), self.tick);
        let has_entry = self.known.contains_key(&tenant) || self.admits(tenant, now);
        let (asked, weight) = if has_entry {
            (self.known.entry(tenant).or_insert(new), weight)
        } else {
            (self.rest.get_or_insert(new), self.rest_weight)
        };
        asked.note(weight, units, tick);
        has_entry
    }

    /// Whether the tick is over at this instant. If so, the next one begins, and who has not asked for a second is
    /// forgotten. So is everybody if the clock has stepped back by more than that.
    pub fn end_tick(&mut self, now: Timestamp) -> bool {
        let tick = now.as_micros() / TICK_US;
        if (tick..tick + TICKS).contains(&self.tick) {
            return false; // a small step back is waited for
        }
        if tick < self.tick {
            self.known.clear(); // by another time
            self.rest = None;
        }
        self.tick = tick;
        self.known.retain(|_, asked| asked.is_active(tick));
        self.rest = self.rest.filter(|asked| asked.is_active(tick));
        true
    }

    /// What was asked for in the last second, until the last tick's end, by tenant. In no order.
    ///
    /// A tenant that asked in the last tick alone at the rate of the whole `capacity`, which is what the limit admits in a
    /// second, counts with that rate: nobody waits for a second to see that it is loud. For others that would be too
    /// much: what they send at once is not what they send all the time.
    pub fn demands(&self, capacity: u64) -> impl Iterator<Item = (u64, Demand)> {
        let rest = self.rest.iter().map(|asked| (&Self::REST, asked));
        let demand = move |asked: &Asked| Demand {
            units: asked.before(self.tick, capacity),
            weight: asked.weight,
        };
        self.known.iter().chain(rest).map(move |(tenant, asked)| (*tenant, demand(asked)))
    }

    /// What one of them asked for, as [`Tenants::demands`] counts it: 0 for one that asks for the first time.
    ///
    /// ```
    /// # use tidegate_core::{Timestamp, share::Tenants};
    /// let (mut tenants, now) = (Tenants::default(), Timestamp::from_micros(1_700_000_000_000_000));
    /// tenants.end_tick(now);
    /// tenants.note(7, 1, 30, now);
    /// assert_eq!(tenants.asked(7, 1_000), 0);
    /// tenants.end_tick(now + Tenants::TICK);
    /// assert_eq!((tenants.asked(7, 1_000), tenants.asked(8, 1_000)), (30, 0));
    /// ```
    pub fn asked(&self, tenant: u64, capacity: u64) -> u64 {
        let asked = if tenant == Self::REST { self.rest.as_ref() } else { self.known.get(&tenant) };
        asked.map_or(0, |asked| asked.before(self.tick, capacity))
    }

    /// How many tenants have an entry.
    pub fn active(&self) -> usize {
        self.known.len()
    }

    fn admits(&mut self, tenant: u64, now: Timestamp) -> bool {
        let is_free = self.known.len() < FREE_MAX;
        let has_room = self.known.len() < TENANTS_MAX;
        tenant != Self::REST && (is_free || (has_room && self.sightings.note(&tenant, now)))
    }
}

impl Asked {
    const fn new(tick: u64) -> Self {
        Self { weight: 1, units: [0; SLOTS], last: tick }
    }

    fn note(&mut self, weight: u32, units: u64, tick: u64) {
        for skipped in (self.last + 1..=tick).take(SLOTS) {
            self.units[slot(skipped)] = 0;
        }
        (self.last, self.weight) = (tick, weight);
        let now = &mut self.units[slot(tick)];
        *now = now.saturating_add(units);
    }

    /// What it asked for in the second before a tick.
    fn before(&self, tick: u64, capacity: u64) -> u64 {
        let units = |at: u64| if at <= self.last { self.units[slot(at)] } else { 0 };
        let since = tick.saturating_sub(TICKS);
        let sum = (since..tick).fold(0, |sum: u64, at| sum.saturating_add(units(at)));
        let rate = units(tick.saturating_sub(1)).saturating_mul(TICKS);
        if rate >= capacity { sum.max(rate) } else { sum }
    }

    const fn is_active(&self, tick: u64) -> bool {
        self.last + TICKS >= tick
    }
}

/// Where a tick is counted.
fn slot(tick: u64) -> usize {
    usize::try_from(tick % SLOTS as u64).unwrap_or_default()
}
