//! How long requests wait for one of a known number of places, by Little's law.

use super::number::float;
use crate::time::Timestamp;

/// How many were under way beyond the places there are, over time.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Crowd {
    places: u64,
    counted_at: Option<Timestamp>,
    /// Microseconds that requests spent beyond the places, all together.
    waited_us: u128,
}

impl Crowd {
    pub(super) const fn of(places: u64) -> Self {
        Self { places, counted_at: None, waited_us: 0 }
    }

    pub(super) const fn places(&self) -> u64 {
        self.places
    }

    /// Until now so many were under way.
    pub(super) fn count(&mut self, running: u64, now: Timestamp) {
        let since = self.counted_at.map_or(0, |before| now.since(before).as_micros());
        self.waited_us += since * u128::from(running.saturating_sub(self.places));
        self.counted_at = Some(now);
    }

    /// What each of those waited that came back meanwhile; unknown if none did.
    pub(super) fn take_wait_ms(&mut self, came_back: u64) -> Option<f64> {
        let waited_us = u64::try_from(std::mem::take(&mut self.waited_us)).unwrap_or(u64::MAX);
        (came_back > 0).then(|| float(waited_us) / float(came_back) / 1000.0)
    }
}
