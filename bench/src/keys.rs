//! The keys of a benchmark, and the order in which they are checked.

/// A key of 24 bytes.
pub fn key(number: usize) -> String {
    format!("user-{number:019}")
}

/// So many keys of a client, different from those of others.
pub fn keys_of(client: usize, count: usize) -> impl Iterator<Item = String> {
    (client * count..(client + 1) * count).map(key)
}

#[derive(Clone, Copy)]
pub enum Order {
    Uniform,
    /// The n-th key is checked 1/n as often as the first.
    Zipf,
}

impl Order {
    /// A million keys in the order of their checks. They are built in advance, one beside the other, so that the memory
    /// accesses of the limiter are measured and not the caller's. The same in every run.
    pub fn keys(self, count: usize, seed: u64) -> Vec<String> {
        self.draw(count, seed, 1 << 20)
    }

    /// The keys of so many checks, in their order.
    pub fn draw(self, count: usize, seed: u64, checks: usize) -> Vec<String> {
        let mut random = SplitMix(seed);
        let harmonic: Vec<f64> = match self {
            Self::Uniform => vec![],
            Self::Zipf => (1..=count)
                .scan(0.0, |sum, rank| {
                    *sum += 1.0 / rank as f64;
                    Some(*sum)
                })
                .collect(),
        };
        let mut pick = || match self {
            Self::Uniform => random.draw() as usize % count,
            Self::Zipf => {
                let at = random.draw() as f64 / u64::MAX as f64 * harmonic[count - 1];
                harmonic.partition_point(|sum| *sum < at).min(count - 1)
            }
        };
        (0..checks).map(|_| key(pick())).collect()
    }
}

/// A cheap pseudo-random sequence. The number is the seed.
pub struct SplitMix(pub u64);

impl SplitMix {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
