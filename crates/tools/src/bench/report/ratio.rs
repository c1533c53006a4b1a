//! One beside the other: ratios of the rounds that followed each other, for nothing else is comparable.

use serde::Serialize;

use super::super::load::Outcome;
use super::super::rounds::Round;
use tidegate_simulation::float;

/// The first server's figure by the other's.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Ratios {
    pub(super) rounds: usize,
    pub(super) per_second: Ratio,
    pub(super) p50: Ratio,
    pub(super) p99: Ratio,
}

/// Over all rounds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Ratios {
    /// `None` if a figure is missing in every round.
    pub(super) fn of(ours: &[Round], theirs: &[Round]) -> Option<Self> {
        let of = |figure: fn(&Outcome) -> Option<f64>| {
            let pairs = ours.iter().zip(theirs);
            let ratios = pairs.filter_map(|(ours, theirs)| {
                Some(figure(&ours.outcome)? / figure(&theirs.outcome)?)
            });
            Ratio::over(ratios.filter(|ratio| ratio.is_finite()).collect())
        };
        Some(Self {
            rounds: ours.len().min(theirs.len()),
            per_second: of(|it| Some(float(it.tally.times.count()) / it.took.as_secs_f64()))?,
            p50: of(|it| it.tally.times.quantile_ns(500).map(float))?,
            p99: of(|it| it.tally.times.quantile_ns(990).map(float))?,
        })
    }
}

impl Ratio {
    fn over(mut ratios: Vec<f64>) -> Option<Self> {
        ratios.sort_by(f64::total_cmp);
        let middle = ratios.len() / 2;
        let median = match ratios.len() {
            0 => return None,
            even if even.is_multiple_of(2) => f64::midpoint(ratios[middle - 1], ratios[middle]),
            _ => ratios[middle],
        };
        Some(Self { median, min: *ratios.first()?, max: *ratios.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_with_its_spread() {
        let of = |ratios: &[f64]| Ratio::over(ratios.to_vec());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[2.0]), Some(Ratio { median: 2.0, min: 2.0, max: 2.0 }));
        assert_eq!(of(&[3.0, 1.0, 9.0]), Some(Ratio { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(of(&[4.0, 1.0]), Some(Ratio { median: 2.5, min: 1.0, max: 4.0 }));
    }
}
