//! How many took how long, to three digits, in memory that does not grow.

/// Steps per doubling, as a power of two: a step is at most a thousandth of what is in it.
const FINE: u32 = 10;
/// Up to 2^42 ns, an hour and a quarter; what takes longer counts as that.
const LONGEST_NS: u64 = (1 << 42) - 1;
const STEPS: usize = 33 << FINE;

/// Durations in nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    steps: Vec<u64>,
    count: u64,
    /// Exact, unlike what is between them.
    min_ns: u64,
    max_ns: u64,
    sum_ns: u128,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { steps: vec![0; STEPS], count: 0, min_ns: u64::MAX, max_ns: 0, sum_ns: 0 }
    }
}

impl Histogram {
    /// `count` took `ns` each.
    pub(super) fn add(&mut self, ns: u64, count: u64) {
        if count == 0 {
            return;
        }
        self.steps[step_of(ns)] += count;
        self.count += count;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns) * u128::from(count);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.steps.iter_mut().zip(&other.steps) {
            *mine += theirs;
        }
        self.count += other.count;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
    }

    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// The shortest and the longest; `None` if there was nothing.
    pub(super) fn ends_ns(&self) -> Option<(u64, u64)> {
        (self.count > 0).then_some((self.min_ns, self.max_ns))
    }

    pub(super) fn mean_ns(&self) -> Option<u64> {
        let mean = self.sum_ns.checked_div(self.count.into())?;
        u64::try_from(mean).ok()
    }

    /// So many in a thousand took no longer: never less than the truth, and at most a thousandth more.
    pub(super) fn quantile_ns(&self, permille: u64) -> Option<u64> {
        let rank = (u128::from(self.count) * u128::from(permille)).div_ceil(1000).max(1);
        let mut below = 0;
        let found = self.steps.iter().position(|count| {
            below += u128::from(*count);
            below >= rank
        })?;
        Some((start_of(found + 1) - 1).clamp(self.min_ns, self.max_ns))
    }

    /// How many took at least `from_ns` and less than `to_ns`, by the steps that begin there.
    pub(super) fn between(&self, from_ns: u64, to_ns: u64) -> u64 {
        let end = if to_ns > LONGEST_NS { STEPS } else { step_of(to_ns) };
        self.steps[step_of(from_ns).min(end)..end].iter().sum()
    }
}

fn step_of(ns: u64) -> usize {
    let ns = ns.min(LONGEST_NS);
    let step = if ns < 1 << FINE {
        ns
    } else {
        let doubling = ns.ilog2() - FINE;
        (u64::from(doubling) << FINE) + (ns >> doubling)
    };
    usize::try_from(step).unwrap_or(STEPS).min(STEPS - 1)
}

/// The shortest time of a step.
fn start_of(step: usize) -> u64 {
    let (fine, step) = (1_u64 << FINE, step as u64);
    if step < 2 * fine {
        return step;
    }
    (fine + step % fine) << (step / fine - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        for ns in times {
            histogram.add(*ns, 1);
        }
        histogram
    }

    proptest! {
        #[test]
        fn every_quantile_is_right_to_three_digits(
            mut times in prop::collection::vec((0_u32..42, any::<u64>()), 1..200),
            permille in 1_u64..=1000,
        ) {
            let mut times: Vec<u64> =
                times.drain(..).map(|(bits, ns)| ns % (1 << bits).max(1)).collect();
            let histogram = of(&times);
            times.sort_unstable();
            let rank = (times.len() * usize::try_from(permille).unwrap()).div_ceil(1000);
            let exact = times[rank - 1];
            let told = histogram.quantile_ns(permille).unwrap();
            prop_assert!(told >= exact && told - exact <= exact / 1000 + 1, "{told} for {exact}");
            prop_assert_eq!(histogram.ends_ns(), Some((times[0], times[times.len() - 1])));
        }

        #[test]
        fn parts_make_the_same_whole(times in prop::collection::vec(0..LONGEST_NS, 2..100)) {
            let (left, right) = times.split_at(times.len() / 2);
            let (whole, mut merged) = (of(&times), of(left));
            merged.merge(&of(right));
            prop_assert_eq!(&merged.steps, &whole.steps);
            prop_assert_eq!(merged.mean_ns(), whole.mean_ns());
            prop_assert_eq!(merged.ends_ns(), whole.ends_ns());
        }
    }

    #[test]
    fn a_time_is_within_its_step() {
        for ns in (0..100_000).chain([1 << 20, 123_456_789, LONGEST_NS]) {
            let step = step_of(ns);
            assert!(start_of(step) <= ns && ns < start_of(step + 1), "{ns}");
        }
    }

    #[test]
    fn what_takes_for_ever_is_counted_too() {
        let histogram = of(&[1, u64::MAX]);
        assert_eq!(histogram.between(1_000_000, u64::MAX), 1);
        assert_eq!(histogram.quantile_ns(500), Some(1));
        assert_eq!(histogram.ends_ns(), Some((1, u64::MAX)));
        assert_eq!(of(&[]).quantile_ns(500), None);
    }
}
