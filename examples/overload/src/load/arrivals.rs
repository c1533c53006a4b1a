//! The arrivals of clients: independent of each other, and the same for the same seed.

use std::time::Duration;

/// The share of clients that retry after a failure.
const PERSISTENT: f64 = 0.6;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Arrival {
    pub(crate) number: u32,
    /// Time since the start.
    pub(crate) due: Duration,
    pub(crate) is_persistent: bool,
}

/// A Poisson process with a mean of `rate` a second.
pub(crate) fn of(seed: u64, rate: f64, span: Duration) -> impl Iterator<Item = Arrival> {
    let mut random = SplitMix64(seed);
    let mut due_s = 0.0;
    let arrivals = (0..).map(move |number| {
        due_s -= (1.0 - random.draw()).ln() / rate;
        let due = Duration::try_from_secs_f64(due_s).unwrap_or(Duration::MAX);
        Arrival { number, due, is_persistent: random.draw() < PERSISTENT }
    });
    arrivals.take_while(move |arrival| arrival.due < span)
}

/// SplitMix64.
struct SplitMix64(u64);

impl SplitMix64 {
    /// The next random number in `0..1`.
    fn draw(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(100);

    fn drawn(seed: u64) -> Vec<Arrival> {
        of(seed, 400.0, SPAN).collect()
    }

    #[test]
    fn a_seed_always_gives_the_same_arrivals() {
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn arrivals_have_the_given_rate_and_are_in_order() {
        let arrivals = drawn(7);
        // 40,000 on average with a standard deviation of 200: five deviations off is a bug.
        assert!((39_000..41_000).contains(&arrivals.len()), "{}", arrivals.len());
        assert!(arrivals.is_sorted_by_key(|it| it.due));
        assert!(arrivals.iter().all(|it| it.due < SPAN));
        let persistent = arrivals.iter().filter(|it| it.is_persistent).count();
        assert!((23_000..25_000).contains(&persistent), "{persistent}");
    }

    /// Evenly spaced arrivals would have a variance of nearly 0.
    #[test]
    fn arrivals_are_independent() {
        let mut counts = [0.0; 100];
        for arrival in drawn(7) {
            counts[usize::try_from(arrival.due.as_secs()).unwrap()] += 1.0;
        }
        let mean = counts.iter().sum::<f64>() / 100.0;
        let variance = counts.iter().map(|it| (it - mean) * (it - mean)).sum::<f64>() / 100.0;
        assert!((0.5..2.0).contains(&(variance / mean)), "{variance} around {mean}");
    }
}
