//! The upstreams of the proxy: balancing, and bounds on requests in flight.
//!
//! - An [`upstream`] has a [`pool`] of connections, a [`health`] and counters; [`keeper`] closes idle connections and checks
//!   health.
//! - A [`connection`] is driven by the request that uses it, without a task in between. HTTP/2 connections are shared:
//!   [`http2`].
//! - [`in_flight`] bounds the requests at all upstreams, of this node or of a fleet.
//! - [`upload`] is a request body in transit. [`hops`] removes hop-by-hop headers, [`forwarded`] writes `Forwarded` headers.

pub(crate) mod connection;
pub(crate) mod failure;
pub(crate) mod forwarded;
mod health;
pub(crate) mod hops;
mod http2;
pub(crate) mod in_flight;
mod keeper;
mod pool;
pub(crate) mod upload;
pub(crate) mod upstream;

pub(crate) use self::keeper::keep;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tidegate::adaptive::Priority;

use self::upstream::{Load, Upstream};
use crate::net::client_tls::Tls;
use crate::stats::TargetStats;
use tidegate_config::proxy::{Balance, Settings};

/// The upstreams of one configuration.
#[derive(Debug)]
pub(crate) struct Upstreams {
    pub(crate) settings: Settings,
    all: Vec<Arc<Upstream>>,
    next: AtomicUsize,
    counts: Arc<RequestCounts>,
}

/// Requests of all configurations.
#[derive(Debug, Default)]
struct RequestCounts {
    under_way: AtomicUsize,
    waiting: AtomicUsize,
}

/// One request counted as in flight or as waiting, until dropped.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    counts: Arc<RequestCounts>,
    counter: fn(&RequestCounts) -> &AtomicUsize,
}

impl Upstreams {
    /// Upstreams of the configuration before keep their connections and counters.
    pub(crate) fn build(settings: &Settings, before: Option<&Self>) -> Result<Self, String> {
        let has_tls = settings.upstreams.iter().any(tidegate_config::proxy::Target::is_tls);
        let tls =
            has_tls.then(|| Tls::new(settings.ca_file.as_deref(), "proxy.ca_file")).transpose()?;
        let upstream = |target: &tidegate_config::proxy::Target| {
            let tls = tls.clone().filter(|_| target.is_tls());
            let mut known = before.iter().flat_map(|before| &before.all);
            // Not with other certificate authorities: its connections were verified with the old ones.
            let known = known.find(|known| known.target == *target && known.tls == tls);
            known.cloned().unwrap_or_else(|| Arc::new(Upstream::new(target.clone(), tls)))
        };
        Ok(Self {
            all: settings.upstreams.iter().map(upstream).collect(),
            settings: settings.clone(),
            next: AtomicUsize::new(0),
            counts: before.map(|before| before.counts.clone()).unwrap_or_default(),
        })
    }

    pub(crate) fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.all
    }

    /// Counts a request in flight; `None` if there are too many.
    pub(crate) fn enter(&self) -> Option<RequestSlot> {
        self.slot(|counts| &counts.under_way, self.settings.requests_max)
    }

    /// Counts a request that waits in a leaky bucket; `None` if there are too many.
    pub(crate) fn queue(&self) -> Option<RequestSlot> {
        self.slot(|counts| &counts.waiting, self.settings.waiting_max)
    }

    fn slot(&self, counter: fn(&RequestCounts) -> &AtomicUsize, max: usize) -> Option<RequestSlot> {
        let slot = RequestSlot { counts: self.counts.clone(), counter };
        // Above the bound the slot is dropped, which undoes the count.
        (counter(&self.counts).fetch_add(1, Relaxed) < max).then_some(slot)
    }

    /// Whether the pool of any upstream has room.
    pub(crate) fn has_room(&self, stats: &TargetStats, priority: Option<Priority>) -> bool {
        self.all.iter().any(|upstream| stats.has_room(&upstream.name, priority))
    }

    /// The upstream for the next attempt, among those not tried yet. If none is up, the one whose ejection ends first:
    /// only an attempt can show that it is back.
    pub(crate) fn choose(&self, tried: &[Arc<Upstream>], now_us: u64) -> Option<Load> {
        let count = self.all.len();
        let start = match tried {
            [] if count > 1 => self.next.fetch_add(1, Relaxed),
            _ => self.next.load(Relaxed),
        };
        let is_new = |upstream: &&Arc<Upstream>| !tried.iter().any(|it| Arc::ptr_eq(it, upstream));
        let all = || (0..count).filter_map(|step| self.all.get((start + step) % count));
        let in_turn = || all().filter(is_new);
        let best = || {
            let mut up = in_turn().filter(|upstream| upstream.health.is_up(now_us));
            match self.settings.balance {
                Balance::RoundRobin => up.next(),
                // The first in turn, if several are equal.
                Balance::LeastLoaded => up.min_by_key(|upstream| upstream.under_way()),
            }
        };
        // Repeats the search if another request has taken the probe of the best one.
        let chosen = std::iter::from_fn(best).take(count).find(|upstream| upstream.admits(now_us));
        let last_resort = || in_turn().min_by_key(|upstream| upstream.health.next_try_us());
        chosen.or_else(last_resort).map(Upstream::load)
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        (self.counter)(&self.counts).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn proxy(balance: Balance) -> Upstreams {
        let targets = ["http://a", "http://b", "http://c"].map(|text| text.parse().unwrap());
        let settings =
            Settings { balance, requests_max: 2, ..Settings::for_upstreams(targets.to_vec()) };
        Upstreams::build(&settings, None).unwrap()
    }

    fn name(load: Option<&Load>) -> &str {
        load.unwrap().upstream().name.strip_prefix("http://").unwrap()
    }

    #[test]
    fn the_least_loaded_upstream_is_chosen() {
        let proxy = proxy(Balance::LeastLoaded);
        let loads: Vec<_> = (0..6).map(|_| proxy.choose(&[], 0)).collect();
        for upstream in proxy.upstreams() {
            assert_eq!(upstream.under_way(), 2);
        }
        let freed = name(loads[4].as_ref()).to_owned();
        let mut loads = loads;
        drop(loads.remove(4));
        assert_eq!(name(proxy.choose(&[], 0).as_ref()), freed);
    }

    #[test]
    fn round_robin_skips_upstreams_that_are_down() {
        let proxy = proxy(Balance::RoundRobin);
        let turns = || -> String {
            (0..6).map(|_| name(proxy.choose(&[], 0).as_ref()).to_owned()).collect()
        };
        assert_eq!(turns(), "abcabc");
        let down = &proxy.upstreams()[1];
        down.health.checked(false);
        down.health.checked(false);
        assert!(!turns().contains('b'));
    }

    #[test]
    fn if_all_are_down_one_is_tried() {
        let proxy = proxy(Balance::LeastLoaded);
        for upstream in proxy.upstreams() {
            upstream.health.checked(false);
            upstream.health.checked(false);
        }
        assert!(proxy.choose(&[], 0).is_some());
    }

    #[test]
    fn no_upstream_is_chosen_twice_for_a_request() {
        for balance in [Balance::LeastLoaded, Balance::RoundRobin] {
            let proxy = proxy(balance);
            // The upstream that is down comes last.
            proxy.upstreams()[1].health.checked(false);
            proxy.upstreams()[1].health.checked(false);
            let mut tried = Vec::new();
            while let Some(load) = proxy.choose(&tried, 0) {
                tried.push(load.upstream().clone());
            }
            let names: String =
                tried.iter().map(|it| it.name.trim_start_matches("http://")).collect();
            assert!(["acb", "cab"].contains(&&*names), "{balance:?}: {names}");
        }
    }

    #[test]
    fn an_ejected_upstream_gets_one_probe_until_it_is_back() {
        for balance in [Balance::LeastLoaded, Balance::RoundRobin] {
            let proxy = proxy(balance);
            let gone = &proxy.upstreams()[0].health;
            (0..3).for_each(|_| _ = gone.missed(0));
            let now_us = gone.next_try_us();
            let chosen = |now_us| -> String {
                (0..9).map(|_| name(proxy.choose(&[], now_us).as_ref()).to_owned()).collect()
            };
            assert_eq!(chosen(now_us - 1).matches('a').count(), 0, "{balance:?}");
            assert_eq!(chosen(now_us).matches('a').count(), 1, "{balance:?}");
            gone.reached();
            assert_eq!(chosen(now_us).matches('a').count(), 3, "{balance:?}");
        }
    }

    #[test]
    fn requests_in_flight_are_bounded() {
        let proxy = proxy(Balance::LeastLoaded);
        let (first, second) = (proxy.enter(), proxy.enter());
        assert!(first.is_some() && second.is_some() && proxy.enter().is_none());
        drop(first);
        assert!(proxy.enter().is_some());
        let next = Upstreams::build(&proxy.settings, Some(&proxy)).unwrap();
        assert!(next.enter().is_some() && second.is_some());
        let (held, more) = (next.enter(), next.enter());
        assert!(held.is_some() && more.is_none(), "requests of the old configuration still count");
    }

    #[test]
    fn a_new_configuration_keeps_the_upstreams_that_stay() {
        let before = proxy(Balance::LeastLoaded);
        let targets = ["http://b", "http://d"].map(|text| text.parse().unwrap());
        let next =
            Upstreams::build(&Settings::for_upstreams(targets.to_vec()), Some(&before)).unwrap();
        assert!(Arc::ptr_eq(&next.upstreams()[0], &before.upstreams()[1]));
        assert_eq!(next.upstreams().len(), 2);
    }

    /// Upstreams with and without TLS, with a new authority in the file.
    fn renewed(ca_file: &Path, before: Option<&Upstreams>) -> Upstreams {
        let ca = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        std::fs::write(ca_file, ca.cert.pem()).unwrap();
        let targets = ["http://a", "https://b"].map(|text| text.parse().unwrap());
        let settings = Settings {
            ca_file: Some(ca_file.to_owned()),
            ..Settings::for_upstreams(targets.to_vec())
        };
        Upstreams::build(&settings, before).unwrap()
    }

    #[test]
    fn a_changed_authority_file_is_read_again() {
        let name = format!("tidegate-ca-{}.pem", std::process::id());
        let ca_file = std::env::temp_dir().join(name);
        let first = renewed(&ca_file, None);
        let same = Upstreams::build(&first.settings, Some(&first)).unwrap();
        let next = renewed(&ca_file, Some(&first));
        std::fs::remove_file(&ca_file).unwrap();
        let kept = |proxy: &Upstreams| {
            let mut pairs = proxy.upstreams().iter().zip(first.upstreams());
            [(); 2].map(|()| pairs.next().is_some_and(|(new, old)| Arc::ptr_eq(new, old)))
        };
        assert_eq!((kept(&same), kept(&next)), ([true, true], [true, false]));
    }
}
