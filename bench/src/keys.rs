//! The keys of a benchmark and the order they are asked for in.

/// Keys of 24 bytes.
pub fn key_strings(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("user-{number:019}")).collect()
}

#[derive(Clone, Copy)]
pub enum Order {
    Uniform,
    /// The n-th key is asked for 1/n as often as the first.
    Zipf,
}

impl Order {
    /// A million picks, the same for everyone who gives the same seed.
    pub fn picks(self, keys: usize, seed: u64) -> Vec<u32> {
        let mut random = SplitMix(seed);
        let harmonic: Vec<f64> = match self {
            Self::Uniform => vec![],
            Self::Zipf => (1..=keys)
                .scan(0.0, |sum, rank| {
                    *sum += 1.0 / rank as f64;
                    Some(*sum)
                })
                .collect(),
        };
        let pick = |number: u64| match self {
            Self::Uniform => (number % keys as u64) as u32,
            Self::Zipf => {
                let at = number as f64 / u64::MAX as f64 * harmonic[keys - 1];
                let rank = harmonic.partition_point(|sum| *sum < at).min(keys - 1);
                // Popular keys are spread over the table as real ones would be.
                (rank as u64 * 2_654_435_761 % keys as u64) as u32
            }
        };
        (0..1_000_000).map(|_| pick(random.next())).collect()
    }
}

struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
