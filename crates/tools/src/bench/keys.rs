//! Who asks: names made of a template, and in which order they take turns.

/// How often each key asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Distribution {
    /// All alike
    Uniform,
    /// The second key half as often as the first, the third a third as often, and so on
    Zipf,
    /// The first key nine times out of ten, the others alike
    Hot,
}

impl Distribution {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
            Self::Hot => "hot",
        }
    }
}

/// How many draws there are; then the first comes again. Drawn before the run, so that drawing costs nothing in it.
const DRAWS: u32 = 1 << 20;

/// The same in every run, so that two runs ask the same.
#[derive(Debug)]
pub(super) struct Keys {
    names: Vec<Box<str>>,
    draws: Vec<u32>,
}

impl Keys {
    pub(super) fn new(template: &str, count: u32, distribution: Distribution) -> Self {
        let names = (0..count).map(|number| template.replace("{}", &number.to_string()).into());
        let mut dice = Dice(0x7469_6465_6761_7465);
        let shares = Shares::of(distribution, count);
        let draws = (0..DRAWS).map(|_| shares.draw(dice.roll())).collect();
        Self { names: names.collect(), draws }
    }

    /// Whose turn it is.
    pub(super) fn at(&self, turn: u64) -> &str {
        let draw = usize::try_from(turn % u64::from(DRAWS)).unwrap_or_default();
        let drawn = self.draws.get(draw).and_then(|key| self.names.get(*key as usize));
        drawn.map_or("", |name| name)
    }
}

/// Which part of the line from 0 to 1 belongs to which key: where each part ends.
struct Shares(Vec<f64>);

impl Shares {
    fn of(distribution: Distribution, count: u32) -> Self {
        let weight = |key: u32| match distribution {
            Distribution::Zipf => 1.0 / f64::from(key + 1),
            Distribution::Hot if key == 0 => 9.0 * f64::from((count - 1).max(1)),
            Distribution::Uniform | Distribution::Hot => 1.0,
        };
        let total: f64 = (0..count).map(weight).sum();
        let mut end = 0.0;
        let ends = (0..count).map(|key| {
            end += weight(key) / total;
            end
        });
        Self(ends.collect())
    }

    fn draw(&self, place: f64) -> u32 {
        let key = self.0.partition_point(|end| *end <= place);
        u32::try_from(key.min(self.0.len() - 1)).unwrap_or_default()
    }
}

/// Numbers from 0 to 1 that look like chance (`SplitMix64`).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let high = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap_or_default();
        f64::from(high) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of all draws each key has.
    fn counts(count: u32, distribution: Distribution) -> Vec<u32> {
        let keys = Keys::new("k{}", count, distribution);
        let mut counts = vec![0; count as usize];
        keys.draws.iter().for_each(|key| counts[*key as usize] += 1);
        counts
    }

    #[test]
    fn keys_ask_as_often_as_they_should() {
        for (distribution, first, last) in [
            (Distribution::Uniform, 0.01, 0.01),
            // The sum of 1/n up to 100 is 5.187.
            (Distribution::Zipf, 1.0 / 5.187, 0.01 / 5.187),
            (Distribution::Hot, 0.9, 0.1 / 99.0),
        ] {
            let counts = counts(100, distribution);
            for (count, share) in [(counts[0], first), (counts[99], last)] {
                let found = f64::from(count) / f64::from(DRAWS);
                assert!((found / share - 1.0).abs() < 0.1, "{distribution:?}: {found} {share}");
            }
        }
    }

    #[test]
    fn one_key_is_always_the_same() {
        for distribution in [Distribution::Uniform, Distribution::Zipf, Distribution::Hot] {
            assert_eq!(counts(1, distribution), [DRAWS]);
        }
        let keys = Keys::new("fixed", 1, Distribution::Uniform);
        assert_eq!([keys.at(0), keys.at(u64::MAX)], ["fixed"; 2]);
    }
}
