//! What each tenant has asked for within the last second, in a table that a flood of made-up names cannot take over.

use std::collections::HashMap;
use std::time::Duration;

use super::Demand;
use crate::time::Timestamp;

/// Tenants beyond this number share one demand.
const TENANTS_MAX: usize = 1_000;
/// A new tenant gets an entry with its first request until so many have one. Then entries are scarce: only those keep theirs
/// that have asked [`PROVEN_MIN`] times, and a new tenant gets one with its third request within [`SIGHTED_WITHIN`]. Made-up
/// names are mostly seen once, and all of them together are one tenant.
const FREE_MAX: usize = TENANTS_MAX / 2;
const PROVEN_MIN: u32 = 3;
const SIGHTED_WITHIN: Duration = Duration::from_secs(4);
/// The newcomers whose requests are counted at a time, about a megabyte: a flood of 8,000 names a second.
const NEWCOMERS_MAX: usize = 32_768;
/// Entries stay scarce while so many requests a second come from names without one. Fewer than the names that made them
/// scarce, or a flood would get entries anew each second.
const STRANGERS_MIN: u64 = FREE_MAX as u64 / 2;
const TICK_US: u64 = 250_000;
/// The ticks of the last second.
const TICKS: u64 = 4;
/// These, and the tick that is not over.
const SLOTS: usize = 5;

/// The demands of up to 1,000 tenants over the last second, by fingerprints of their names; all others share one. A tenant
/// has an entry for as long as it asks each second: newcomers push nobody out who has asked three times.
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
    newcomers: Newcomers,
    /// Whether new tenants have to prove themselves.
    is_scarce: bool,
    /// The requests of those without an entry, each as one unit: about as many as there are such names.
    strangers: Asked,
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
    /// How many times it asked.
    seen: u32,
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
        Self {
            known: HashMap::new(),
            rest: None,
            rest_weight,
            newcomers: Newcomers::default(),
            is_scarce: false,
            strangers: Asked::new(0),
            tick: 0,
        }
    }

    /// How often demands are looked at.
    pub const TICK: Duration = Duration::from_micros(TICK_US);

    /// The fingerprint under which all tenants without an entry are counted. No tenant has it.
    ///
    /// ```
    /// # use tidegate_core::{Timestamp, share::Tenants};
    /// let (mut tenants, now) = (Tenants::default(), Timestamp::from_micros(1_700_000_000_000_000));
    /// tenants.end_tick(now);
    /// for tenant in 1..=2_000 {
    ///     tenants.note(tenant, 1, 5, now); // each is seen once
    /// }
    /// tenants.end_tick(now + Tenants::TICK);
    /// let rest = tenants.demands(1_000_000).find(|(tenant, _)| *tenant == Tenants::REST);
    /// assert_eq!(rest.map(|(_, demand)| demand.units), Some(2_000 * 5));
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
        let tick = self.tick;
        let has_entry = self.known.contains_key(&tenant) || self.admits(tenant, now);
        let (asked, weight) = if has_entry {
            let seen = if self.is_scarce { PROVEN_MIN } else { 0 };
            let new = Asked { seen, ..Asked::new(tick) };
            (self.known.entry(tenant).or_insert(new), weight)
        } else {
            self.strangers.note(1, 1, tick);
            (self.rest.get_or_insert(Asked::new(tick)), self.rest_weight)
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
            (self.rest, self.strangers) = (None, Asked::new(tick));
        }
        self.tick = tick;
        self.known.retain(|_, asked| asked.is_active(tick));
        self.rest = self.rest.filter(|asked| asked.is_active(tick));
        let strangers = self.strangers.before(tick, u64::MAX);
        self.is_scarce &= self.known.len() >= FREE_MAX || strangers >= STRANGERS_MIN;
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
        if tenant == Self::REST {
            return false;
        }
        if !self.is_scarce && self.known.len() < FREE_MAX {
            return true;
        }
        if !self.is_scarce {
            self.is_scarce = true;
            self.move_unproven_to_rest();
        }
        self.known.len() < TENANTS_MAX && self.newcomers.is_proven(tenant, now)
    }

    fn move_unproven_to_rest(&mut self) {
        let tick = self.tick;
        for (_, asked) in self.known.extract_if(|_, asked| asked.seen < PROVEN_MIN) {
            let rest = self.rest.get_or_insert(Asked::new(tick));
            rest.add(&asked, self.rest_weight, tick);
            self.strangers.note(1, 1, tick);
        }
    }
}

/// How often names without an entry have asked lately. Exact, so that no name of a flood gets an entry by chance.
#[derive(Clone, Debug, Default)]
struct Newcomers {
    asked: HashMap<u64, u32>,
    /// Counted since then.
    since: Timestamp,
}

impl Newcomers {
    /// Counts a request, and returns whether the name has asked often enough. While there are too many, further ones wait for
    /// the next period.
    fn is_proven(&mut self, tenant: u64, now: Timestamp) -> bool {
        if now < self.since || now.since(self.since) >= SIGHTED_WITHIN {
            self.asked.clear();
            self.since = now;
        }
        let is_full = self.asked.len() >= NEWCOMERS_MAX;
        if is_full && !self.asked.contains_key(&tenant) {
            return false;
        }
        let asked = self.asked.entry(tenant).or_default();
        *asked = asked.saturating_add(1);
        *asked >= PROVEN_MIN
    }
}

impl Asked {
    const fn new(tick: u64) -> Self {
        Self { weight: 1, units: [0; SLOTS], last: tick, seen: 0 }
    }

    fn note(&mut self, weight: u32, units: u64, tick: u64) {
        for skipped in (self.last + 1..=tick).take(SLOTS) {
            self.units[slot(skipped)] = 0;
        }
        (self.last, self.weight) = (tick, weight);
        self.seen = self.seen.saturating_add(1);
        let now = &mut self.units[slot(tick)];
        *now = now.saturating_add(units);
    }

    /// Takes over what another one, which is active, asked for.
    fn add(&mut self, other: &Self, weight: u32, tick: u64) {
        self.note(weight, 0, tick);
        for at in tick.saturating_sub(TICKS)..=tick {
            let units = &mut self.units[slot(at)];
            *units = units.saturating_add(other.at(at));
        }
    }

    fn at(&self, tick: u64) -> u64 {
        if tick <= self.last { self.units[slot(tick)] } else { 0 }
    }

    /// What it asked for in the second before a tick.
    fn before(&self, tick: u64, capacity: u64) -> u64 {
        let since = tick.saturating_sub(TICKS);
        let sum = (since..tick).fold(0, |sum: u64, at| sum.saturating_add(self.at(at)));
        let rate = self.at(tick.saturating_sub(1)).saturating_mul(TICKS);
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
