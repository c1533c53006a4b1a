//! A random number generator with a seed, in integers: the same numbers on every machine.

/// splitmix64: small, and good enough for a simulation.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// One stream per seed and purpose, so that one does not shift another. Mixing sets where a stream starts: streams
    /// of consecutive seeds would otherwise be the same one, a step apart.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self(mix(mix(seed).wrapping_add(purpose)))
    }

    pub fn draw(&mut self) -> u64 {
        let drawn = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// From 0 up to, but not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        let (_, high) = self.draw().carrying_mul(end, 0);
        high
    }

    /// Exponentially distributed with mean 1, in units of 2^−32. Von Neumann's method needs comparisons only; a
    /// logarithm would not be the same number on every machine.
    pub fn exponential(&mut self) -> u64 {
        let mut whole = 0;
        loop {
            let first = self.draw() >> 32;
            let (mut last, mut odd) = (first, true);
            loop {
                let drawn = self.draw() >> 32;
                if drawn >= last {
                    break;
                }
                (last, odd) = (drawn, !odd);
            }
            if odd {
                return (whole << 32) + first;
            }
            whole += 1;
        }
    }
}

/// The golden ratio: the step of splitmix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of splitmix64.
const fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(STEP);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Ranks from 0, each drawn 1/n as often as the first, where n counts from 1.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Cumulative weights.
    sums: Vec<u64>,
}

impl Zipf {
    pub fn new(count: u64) -> Self {
        let weights = (1..=count).scan(0, |sum, rank| {
            *sum += (1_u64 << 32) / rank;
            Some(*sum)
        });
        Self { sums: weights.collect() }
    }

    pub fn draw(&self, rng: &mut Rng) -> usize {
        let drawn = rng.below(self.sums.last().copied().unwrap_or(1));
        self.sums.partition_point(|sum| *sum <= drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stream_repeats_another_one_some_steps_later() {
        let mut drawn = std::collections::HashSet::new();
        for (seed, purpose) in (0..20).flat_map(|seed| (0..5).map(move |purpose| (seed, purpose))) {
            let mut rng = Rng::new(seed, purpose);
            assert!((0..1000).all(|_| drawn.insert(rng.draw())), "{seed} {purpose}");
        }
    }

    #[test]
    fn the_mean_of_the_exponential_is_one() {
        let mut rng = Rng::new(1, 0);
        let sum: u128 = (0..100_000).map(|_| u128::from(rng.exponential())).sum();
        let mean_milli = (sum * 1000 / 100_000) >> 32;
        assert!((990..=1010).contains(&mean_milli), "{mean_milli}");
    }

    #[test]
    fn the_first_rank_is_drawn_twice_as_often_as_the_second() {
        let (zipf, mut rng) = (Zipf::new(10), Rng::new(1, 0));
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|_| counts[zipf.draw(&mut rng)] += 1);
        assert!(counts[0].abs_diff(2 * counts[1]) < counts[0] / 20, "{counts:?}");
        assert!(counts[0].abs_diff(10 * counts[9]) < counts[0] / 10, "{counts:?}");
    }
}
