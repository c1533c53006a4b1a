//! How fast clients were, to choose a limit from: the busiest second and minute of each.

use std::collections::HashMap;

use serde::Serialize;

/// Clients that are measured: about 20 MB. Later ones are only counted.
const CLIENTS_MAX: usize = 200_000;
const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;
/// In tenths of a percent.
const SHARES: [u64; 5] = [500, 900, 990, 999, 1000];

#[derive(Default)]
pub(super) struct ClientRates {
    clients: HashMap<Box<str>, [Busiest; 2]>,
    /// Requests of clients beyond `CLIENTS_MAX`.
    others: u64,
}

/// The busiest of the periods of one length, and the last one.
#[derive(Clone, Copy, Default)]
struct Busiest {
    period: u64,
    count: u64,
    most: u64,
}

/// Of how many requests the busiest second and minute of a client were: of half of the clients at most so many, and so on.
#[derive(Debug, Serialize)]
pub struct RateReport {
    pub clients: usize,
    /// Requests of clients beyond those that are measured.
    pub unmeasured: u64,
    pub second: Percentiles,
    pub minute: Percentiles,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl ClientRates {
    pub(super) fn add(&mut self, client: &str, at_us: u64) {
        if !self.clients.contains_key(client) {
            if self.clients.len() == CLIENTS_MAX {
                self.others += 1;
                return;
            }
            self.clients.insert(client.into(), [Busiest::default(); 2]);
        }
        let Some([second, minute]) = self.clients.get_mut(client) else { return };
        second.add(at_us / SECOND_US);
        minute.add(at_us / MINUTE_US);
    }

    pub(super) fn report(&self) -> RateReport {
        let of = |index: usize| Percentiles::new(self.clients.values().map(|it| it[index].most));
        let (second, minute) = (of(0), of(1));
        RateReport { clients: self.clients.len(), unmeasured: self.others, second, minute }
    }
}

impl Busiest {
    /// A line that is late counts for the newest period.
    fn add(&mut self, period: u64) {
        if period > self.period {
            (self.period, self.count) = (period, 0);
        }
        self.count += 1;
        self.most = self.most.max(self.count);
    }
}

impl Percentiles {
    fn new(values: impl Iterator<Item = u64>) -> Self {
        let mut values: Vec<u64> = values.collect();
        values.sort_unstable();
        let [p50, p90, p99, p999, max] = SHARES.map(|share| {
            let rank = (values.len() as u64 * share).div_ceil(1000).max(1) - 1;
            usize::try_from(rank).ok().and_then(|rank| values.get(rank)).copied().unwrap_or(0)
        });
        Self { p50, p90, p99, p999, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_second_and_minute_of_each_client_are_found() {
        let mut rates = ClientRates::default();
        // Client n sends n requests in each of two seconds of one minute, and one in the next.
        for client in 1..=100_u64 {
            for number in 0..2 * client {
                rates.add(&client.to_string(), MINUTE_US * 10 + number / client * SECOND_US);
            }
            rates.add(&client.to_string(), MINUTE_US * 11);
        }
        let report = rates.report();
        let expected = Percentiles { p50: 50, p90: 90, p99: 99, p999: 100, max: 100 };
        assert_eq!((report.clients, report.second), (100, expected));
        assert_eq!((report.minute.p50, report.minute.max), (100, 200));
    }

    #[test]
    fn memory_is_bounded_whatever_clients_come() {
        let mut rates = ClientRates::default();
        (0..CLIENTS_MAX + 7).for_each(|client| rates.add(&client.to_string(), 0));
        let report = rates.report();
        assert_eq!((report.clients, report.unmeasured), (CLIENTS_MAX, 7));
        assert_eq!(ClientRates::default().report().minute.max, 0);
    }
}
