//! Chance from a seed, in integers: the same numbers on every machine.

/// A small generator (splitmix64): good enough for a simulation, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// A stream of its own for each seed and purpose, so that one does not shift another. They begin where mixing
    /// leads, not side by side: seeds that follow each other would be one stream, a step apart.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self(mixed(mixed(seed).wrapping_add(purpose)))
    }

    pub fn draw(&mut self) -> u64 {
        let drawn = mixed(self.0);
        self.0 = self.0.wrapping_add(STEP);
        drawn
    }

    /// From 0 up to, but without, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        let (_, high) = self.draw().carrying_mul(end, 0);
        high
    }

    /// Exponentially distributed with mean 1, in units of 2^−32. Von Neumann's way: comparisons only, where a
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

/// The golden ratio, as splitmix64 steps by it.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What splitmix64 makes of its state.
const fn mixed(state: u64) -> u64 {
    let z = state.wrapping_add(STEP);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Who asks: the n-th busiest of a fleet 1/n as often as the busiest.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Sums of the weights up to each.
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

    pub fn draw(&self, chance: &mut Chance) -> usize {
        let drawn = chance.below(self.sums.last().copied().unwrap_or(1));
        self.sums.partition_point(|sum| *sum <= drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_stream_is_another_one_some_steps_later() {
        let mut drawn = std::collections::HashSet::new();
        for (seed, purpose) in (0..20).flat_map(|seed| (0..5).map(move |purpose| (seed, purpose))) {
            let mut chance = Chance::new(seed, purpose);
            assert!((0..1000).all(|_| drawn.insert(chance.draw())), "{seed} {purpose}");
        }
    }

    #[test]
    fn the_mean_of_the_exponential_is_one() {
        let mut chance = Chance::new(1, 0);
        let sum: u128 = (0..100_000).map(|_| u128::from(chance.exponential())).sum();
        let mean_milli = (sum * 1000 / 100_000) >> 32;
        assert!((990..=1010).contains(&mean_milli), "{mean_milli}");
    }

    #[test]
    fn the_busiest_asks_twice_as_often_as_the_second() {
        let (zipf, mut chance) = (Zipf::new(10), Chance::new(1, 0));
        let mut asked = [0_u32; 10];
        (0..100_000).for_each(|_| asked[zipf.draw(&mut chance)] += 1);
        assert!(asked[0].abs_diff(2 * asked[1]) < asked[0] / 20, "{asked:?}");
        assert!(asked[0].abs_diff(10 * asked[9]) < asked[0] / 10, "{asked:?}");
    }
}
