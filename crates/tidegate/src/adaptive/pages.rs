//! A limit of every URL that follows how long that URL takes.

use std::sync::Mutex;

use tidegate_core::adaptive::{Mode, Ramp};

use super::governor::part_of;
use super::{Target, lock, steady};
use crate::effective::Effective;

pub(super) struct Pages {
    effective: Effective,
    units: u64,
    ramp: Ramp,
    target: Target,
    mode: Mode,
    /// The share that an operator has fixed, of every URL.
    fixed: Mutex<Option<f64>>,
}

impl Pages {
    pub(super) fn new(
        effective: Effective,
        units: u64,
        ramp: Ramp,
        target: &Target,
        mode: Mode,
    ) -> Self {
        Self { effective, units, ramp, target: target.clone(), mode, fixed: Mutex::default() }
    }

    /// Begins to work, with what was fixed before.
    pub(super) fn take_over(&self, before: Option<&Self>) {
        *lock(&self.fixed) = before.and_then(Self::fixed);
        self.effective.enforce(self.mode != Mode::Shadow);
    }

    /// The share that is fixed.
    pub(super) fn fixed(&self) -> Option<f64> {
        *lock(&self.fixed)
    }

    pub(super) fn fix(&self, share: Option<f64>) -> bool {
        let valid = share.filter(|share| (0.0..=1.0).contains(share));
        *lock(&self.fixed) = valid;
        self.publish();
        share.is_none() || valid.is_some()
    }

    pub(super) fn effective(&self) -> Effective {
        self.effective.clone()
    }

    /// Sets those that take long. All others are whole; beyond ten thousand they have what those share.
    pub(super) fn publish(&self) {
        if self.mode == Mode::Off {
            self.effective.clear();
            return;
        }
        if let Some(share) = self.fixed() {
            let units = part_of(self.units, share);
            self.effective.replace_keys::<&[u8]>([]);
            self.effective.set(if units < self.units { units } else { u64::MAX });
            return;
        }
        let now = steady(self.target.clock());
        let (mut others, mut slow) = (u64::MAX, Vec::new());
        self.target.with_urls(|urls| {
            for (url, units) in urls.limits(&self.ramp, self.units, now) {
                match url {
                    Some(url) => slow.push((url.to_owned(), units)),
                    None if urls.is_full() => others = units,
                    None => {}
                }
            }
        });
        // One that is well must not have what the crowd beyond has.
        self.effective.replace_keys(
            slow.into_iter().filter(|(_, units)| *units < self.units || others < self.units),
        );
        self.effective.set(if others < self.units { others } else { u64::MAX });
    }
}
