//! Keys made of a template, and the order in which they are used.

use tidegate_simulation::rng::{Rng, Zipf};

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

/// How many draws there are before they repeat. They are drawn before the run, so that drawing costs nothing in it.
const DRAWS: u32 = 1 << 20;

/// The same in every run, so that runs can be compared.
#[derive(Debug)]
pub(super) struct Keys {
    names: Vec<Box<str>>,
    draws: Vec<u32>,
}

impl Keys {
    pub(super) fn new(template: &str, count: u32, distribution: Distribution) -> Self {
        let names = (0..count).map(|number| template.replace("{}", &number.to_string()).into());
        let mut rng = Rng::new(0x7469_6465_6761_7465, 0);
        let (zipf, others) = (Zipf::new(count.into()), u64::from(count - 1));
        let mut draw = || match distribution {
            Distribution::Uniform => rng.below(count.into()),
            Distribution::Zipf => zipf.draw(&mut rng) as u64,
            Distribution::Hot if others == 0 || rng.below(10) < 9 => 0,
            Distribution::Hot => 1 + rng.below(others),
        };
        let draws = (0..DRAWS).map(|_| u32::try_from(draw()).unwrap_or_default()).collect();
        Self { names: names.collect(), draws }
    }

    /// The key of a request, by its number.
    pub(super) fn at(&self, number: u64) -> &str {
        let draw = usize::try_from(number % u64::from(DRAWS)).unwrap_or_default();
        let drawn = self.draws.get(draw).and_then(|key| self.names.get(*key as usize));
        drawn.map_or("", |name| name)
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
    fn keys_are_used_as_often_as_the_distribution_says() {
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
