//! A limit of every URL that follows how long that URL takes.

use tidegate_core::adaptive::{Mode, Ramp};

use super::{Target, steady};
use crate::effective::Effective;

pub(super) struct Pages {
    effective: Effective,
    units: u64,
    ramp: Ramp,
    target: Target,
    mode: Mode,
}

impl Pages {
    pub(super) fn new(
        effective: Effective,
        units: u64,
        ramp: Ramp,
        target: &Target,
        mode: Mode,
    ) -> Self {
        effective.enforce(mode != Mode::Shadow);
        Self { effective, units, ramp, target: target.clone(), mode }
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
