//! Scenarios: the load on the backend, and faults of the readings.

use std::ops::Range;

use super::backend::Speed;

/// Requests per second of all workers.
pub(super) const CAPACITY: u64 = 400;
/// The load is half the capacity before and after, for comparison.
const BEFORE_S: u64 = 30;
const AFTER_S: u64 = 15;

/// By how much one waiting request slows all others, in millionths: hardly at all, or a lot.
const MILD_PPM: u64 = 200;
const HARSH_PPM: u64 = 5_000;

/// A load for some time, and the quality of the readings.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    /// In percent of the capacity, at the beginning and at the end.
    load_percent: (u64, u64),
    pub lasts_s: u64,
    slowdown: u64,
    growth_ppm: u64,
    pub(super) delay_ticks: usize,
    pub(super) fault: Fault,
    pub(super) bots_percent: u64,
}

/// A fault of the readings, for a third of the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    None,
    Outage,
    NotANumber,
}

const CALM: Scenario = Scenario {
    name: "healthy",
    about: "half of what it can do",
    load_percent: (50, 50),
    lasts_s: 60,
    slowdown: 1,
    growth_ppm: MILD_PPM,
    delay_ticks: 0,
    fault: Fault::None,
    bots_percent: 0,
};

/// Twice the capacity; variants have readings that are late or wrong.
const TWICE: Scenario =
    Scenario { name: "twice", about: "2 × what it can do", load_percent: (200, 200), ..CALM };

/// All scenarios; those that compare the controllers best come first.
pub const ALL: [Scenario; 13] = [
    Scenario { name: "spike", about: "3 × what it can do", load_percent: (300, 300), ..CALM },
    Scenario {
        name: "slow-db",
        about: "a database that takes three times as long: it can do 133/s",
        load_percent: (90, 90),
        slowdown: 3,
        ..CALM
    },
    Scenario {
        name: "delay-2s",
        about: "2 × what it can do, and readings are 2 s late",
        delay_ticks: 2,
        ..TWICE
    },
    Scenario {
        name: "harsh",
        about: "3 × what it can do, and what waits makes all slowdown",
        load_percent: (300, 300),
        growth_ppm: HARSH_PPM,
        ..CALM
    },
    TWICE,
    Scenario {
        name: "delay-5s",
        about: "2 × what it can do, and readings are 5 s late",
        delay_ticks: 5,
        ..TWICE
    },
    Scenario {
        name: "ramp",
        about: "from 1 × to 3 × what it can do, slowly",
        load_percent: (100, 300),
        ..CALM
    },
    Scenario {
        name: "burst",
        about: "3 × what it can do, for 10 s",
        load_percent: (300, 300),
        lasts_s: 10,
        ..CALM
    },
    Scenario {
        name: "bots",
        about: "people want half of what it can do, and bots four times as much",
        load_percent: (250, 250),
        bots_percent: 80,
        ..CALM
    },
    Scenario {
        name: "outage",
        about: "2 × what it can do, and no reading for 20 s",
        fault: Fault::Outage,
        ..TWICE
    },
    Scenario {
        name: "nan",
        about: "2 × what it can do, and readings that are no numbers for 20 s",
        fault: Fault::NotANumber,
        ..TWICE
    },
    Scenario { name: "soak", about: "2 × what it can do, for 30 minutes", lasts_s: 1800, ..TWICE },
    CALM,
];

impl Scenario {
    /// The seconds that are judged.
    pub(super) const fn judged_s(&self) -> Range<u64> {
        BEFORE_S..BEFORE_S + self.lasts_s
    }

    pub(super) const fn ends_s(&self) -> u64 {
        BEFORE_S + self.lasts_s + AFTER_S
    }

    fn is_judged(&self, second: u64) -> bool {
        self.judged_s().contains(&second)
    }

    /// Requests per second.
    pub(super) fn load(&self, second: u64) -> u64 {
        let percent = if self.is_judged(second) {
            let (from, to) = self.load_percent;
            from + (to - from) * (second - BEFORE_S) / self.lasts_s
        } else {
            50
        };
        CAPACITY * percent / 100
    }

    /// The best possible goodput while it is judged.
    pub(super) fn possible(&self) -> u64 {
        (CAPACITY * self.load_percent.0 / 100).min(CAPACITY / self.slowdown)
    }

    pub(super) fn speed(&self, second: u64) -> Speed {
        let slowdown = if self.is_judged(second) { self.slowdown } else { 1 };
        Speed { slowdown, growth_ppm: self.growth_ppm }
    }

    /// The fault in this second: it lasts for the second third of what is judged.
    pub(super) fn fault(&self, second: u64) -> Fault {
        let from = BEFORE_S + self.lasts_s / 3;
        if (from..from + self.lasts_s / 3).contains(&second) { self.fault } else { Fault::None }
    }

    /// Whether the backend could serve all requests.
    pub(super) fn is_calm(&self, second: u64) -> bool {
        !self.is_judged(second) || self.load_percent.1 <= 50
    }
}
