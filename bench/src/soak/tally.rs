//! What the clients saw.

use std::time::Duration;

use tidegate_core::Histogram;

use crate::load::Door;
use crate::traffic::{ABUSED_KEYS, Ask};

/// One door. Times are in microseconds, to a hundredth.
#[derive(Default)]
pub(crate) struct DoorTally {
    pub(crate) us: Histogram<7, 32>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) errors: u64,
}

impl DoorTally {
    pub(crate) const fn answers(&self) -> u64 {
        self.allowed + self.denied
    }

    /// A quantile of the latency.
    pub(crate) fn ms(&self, permille: u64) -> f64 {
        self.us.quantile(permille).map_or(f64::INFINITY, |us| us as f64 / 1e3)
    }
}

#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) doors: [DoorTally; Door::ALL.len()],
    /// Admissions of each abused key.
    pub(crate) admitted: [u64; ABUSED_KEYS],
    /// Refusals of ordinary keys.
    pub(crate) ordinary_denied: u64,
    pub(crate) first_error: Option<String>,
    /// From before the first request to after the last answer.
    pub(crate) took: Duration,
}

impl Tally {
    pub(crate) fn answered(&mut self, door: Door, time: Duration, asks: &[Ask], admits: &[bool]) {
        let tally = &mut self.doors[door as usize];
        tally.us.record(time.as_micros() as u64, asks.len() as u64);
        for (ask, admits) in asks.iter().zip(admits) {
            *(if *admits { &mut tally.allowed } else { &mut tally.denied }) += 1;
            match ask.abused {
                Some(key) => self.admitted[key] += u64::from(*admits),
                None => self.ordinary_denied += u64::from(!admits),
            }
        }
    }

    pub(crate) fn failed(&mut self, door: Door, requests: u64, error: impl Into<String>) {
        if requests > 0 {
            self.doors[door as usize].errors += requests;
            self.first_error.get_or_insert_with(|| error.into());
        }
    }

    pub(crate) fn answers(&self) -> u64 {
        self.doors.iter().map(DoorTally::answers).sum()
    }

    pub(crate) fn errors(&self) -> u64 {
        self.doors.iter().map(|door| door.errors).sum()
    }

    /// Answers per second.
    pub(crate) fn rate(&self) -> f64 {
        self.answers() as f64 / self.took.as_secs_f64()
    }

    /// The 99th percentile of the slowest door.
    pub(crate) fn p99_ms(&self) -> f64 {
        self.doors.iter().map(|door| door.ms(990)).fold(0.0, f64::max)
    }
}
