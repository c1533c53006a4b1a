//! The ratio of two endpoints, by rounds that followed each other, because only these are comparable.

use serde::Serialize;

use super::super::load::Round;
use tidegate_simulation::float;

/// The figures of the first server divided by those of the second.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Ratios {
    pub(super) rounds: usize,
    pub(super) per_second: Ratio,
    pub(super) p50: Ratio,
    pub(super) p99: Ratio,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Ratio {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Ratios {
    /// `None` if a figure is missing in every round.
    pub(super) fn new(ours: &[Round], theirs: &[Round]) -> Option<Self> {
        let ratio = |figure: fn(&Round) -> Option<f64>| {
            let pairs = ours.iter().zip(theirs);
            let ratios = pairs.filter_map(|(ours, theirs)| Some(figure(ours)? / figure(theirs)?));
            Ratio::from_rounds(ratios.filter(|ratio| ratio.is_finite()).collect())
        };
        Some(Self {
            rounds: ours.len().min(theirs.len()),
            per_second: ratio(|it| Some(float(it.stats.times.count()) / it.took.as_secs_f64()))?,
            p50: ratio(|it| it.stats.times.quantile(500).map(float))?,
            p99: ratio(|it| it.stats.times.quantile(990).map(float))?,
        })
    }
}

impl Ratio {
    fn from_rounds(mut ratios: Vec<f64>) -> Option<Self> {
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
        let ratio = |ratios: &[f64]| Ratio::from_rounds(ratios.to_vec());
        assert_eq!(ratio(&[]), None);
        assert_eq!(ratio(&[2.0]), Some(Ratio { median: 2.0, min: 2.0, max: 2.0 }));
        assert_eq!(ratio(&[3.0, 1.0, 9.0]), Some(Ratio { median: 3.0, min: 1.0, max: 9.0 }));
        assert_eq!(ratio(&[4.0, 1.0]), Some(Ratio { median: 2.5, min: 1.0, max: 4.0 }));
    }
}
