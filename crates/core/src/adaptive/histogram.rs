//! Times, counted in steps: eight for each doubling, so that a quantile is off by a few per cent at most.

use super::number::float;

/// Steps per doubling, as a power of two.
const FINE: u32 = 3;
/// Up to 2^28 µs, four and a half minutes; what takes longer counts as that.
const STEPS: usize = 26 << FINE;

/// How many took how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Histogram {
    steps: Box<[u32; STEPS]>,
    count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { steps: Box::new([0; STEPS]), count: 0 }
    }
}

impl Histogram {
    pub(super) fn note(&mut self, us: u64) {
        let step = &mut self.steps[step_of(us)];
        *step = step.saturating_add(1);
        self.count += 1;
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn clear(&mut self) {
        self.steps.fill(0);
        self.count = 0;
    }

    /// Half took less, in milliseconds. As if those within a step were spread evenly over it.
    pub(super) fn median_ms(&self) -> Option<f64> {
        let half = float(self.count) / 2.0;
        let mut below = 0.0;
        for (step, count) in self.steps.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = float((*count).into());
            if below + count >= half {
                let (from, to) = (float(start_of(step)), float(start_of(step + 1)));
                return Some((from + (to - from) * (half - below) / count) / 1000.0);
            }
            below += count;
        }
        None
    }
}

fn step_of(us: u64) -> usize {
    let us = us.min((1 << 28) - 1);
    let step = if us < 1 << FINE {
        us
    } else {
        let doubling = us.ilog2() - FINE;
        (u64::from(doubling) << FINE) + (us >> doubling)
    };
    usize::try_from(step).unwrap_or(STEPS).min(STEPS - 1)
}

/// The shortest time of a step, in microseconds.
fn start_of(step: usize) -> u64 {
    let fine = 1_u64 << FINE;
    let step = step as u64;
    if step < 2 * fine {
        return step;
    }
    let doubling = step / fine - 1;
    (fine + step % fine) << doubling
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_within_its_step() {
        for us in (0..10_000).chain([123_456, 1 << 20, (1 << 28) - 1]) {
            let step = step_of(us);
            assert!(start_of(step) <= us && us < start_of(step + 1), "{us}");
        }
        assert_eq!(step_of(u64::MAX), STEPS - 1);
    }

    #[test]
    fn a_median_is_off_by_a_few_per_cent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.median_ms(), None);
        (0..=2000).for_each(|n| histogram.note(n * 37));
        let median_ms = histogram.median_ms().unwrap();
        assert!((median_ms - 37.0).abs() < 0.5, "{median_ms}");
    }
}
