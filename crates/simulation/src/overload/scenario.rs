//! What happens to the plant.

use std::ops::Range;

use super::plant::Pace;

/// What all workers can do in a second.
pub(super) const CAPACITY: u64 = 400;
/// Half of that comes before, so that there is something to compare with, and after.
const BEFORE_S: u64 = 30;
const AFTER_S: u64 = 15;

/// What one waiting request more does to all others, in millionths: hardly anything, or a lot.
const MILD_PPM: u64 = 200;
const HARSH_PPM: u64 = 5_000;

/// Something that happens to the plant: what comes, for how long, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    /// In hundredths of the capacity, at the beginning and at the end.
    load_percent: (u64, u64),
    pub lasts_s: u64,
    slower: u64,
    growth_ppm: u64,
    pub(super) delay_ticks: usize,
    pub(super) fault: Fault,
    /// Of a hundred requests, so many come from bots.
    pub(super) bots_percent: u64,
}

/// What is wrong with the readings, for a third of the time.
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
    slower: 1,
    growth_ppm: MILD_PPM,
    delay_ticks: 0,
    fault: Fault::None,
    bots_percent: 0,
};

/// Twice what it can do, with readings that may be late or wrong.
const TWICE: Scenario =
    Scenario { name: "twice", about: "2 × what it can do", load_percent: (200, 200), ..CALM };

/// All of them, those that the controllers are compared by first.
pub const ALL: [Scenario; 13] = [
    Scenario { name: "spike", about: "3 × what it can do", load_percent: (300, 300), ..CALM },
    Scenario {
        name: "slow-db",
        about: "a database that takes three times as long: it can do 133/s",
        load_percent: (90, 90),
        slower: 3,
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
        about: "3 × what it can do, and what waits makes all slower",
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

    /// What the plant can do while it is judged, as far as it is asked to.
    pub(super) fn possible(&self) -> u64 {
        (CAPACITY * self.load_percent.0 / 100).min(CAPACITY / self.slower)
    }

    pub(super) fn pace(&self, second: u64) -> Pace {
        let slower = if self.is_judged(second) { self.slower } else { 1 };
        Pace { slower, growth_ppm: self.growth_ppm }
    }

    /// What is wrong with the readings in this second: in the second third of what is judged.
    pub(super) fn fault(&self, second: u64) -> Fault {
        let from = BEFORE_S + self.lasts_s / 3;
        if (from..from + self.lasts_s / 3).contains(&second) { self.fault } else { Fault::None }
    }

    /// Whether the plant could serve all who come.
    pub(super) fn is_calm(&self, second: u64) -> bool {
        !self.is_judged(second) || self.load_percent.1 <= 50
    }
}
