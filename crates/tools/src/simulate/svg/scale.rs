//! Axes: from values to positions in the chart.

/// An axis from 0 to a round number.
pub(super) struct Scale {
    step: f64,
    steps: u32,
    from: f64,
    to: f64,
}

impl Scale {
    /// For values up to `max`, between two positions in the chart.
    pub(super) fn new(max: f64, from: f64, to: f64) -> Self {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let power = 10_f64.powf((max / 5.0).log10().floor());
        let round = [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power);
        // At most seven steps: the digit above a fifth of the whole is at most two and a half times it.
        let step = round.into_iter().find(|step| max / step <= 7.0).unwrap_or(max);
        // Tolerates rounding of a millionth of a step.
        let steps = (1..=7).find(|&steps| f64::from(steps) * step >= max - step * 1e-6);
        Self { step, steps: steps.unwrap_or(7), from, to }
    }

    /// The position of a value; one outside of the axis is at its end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let part = (value / (self.step * f64::from(self.steps))).clamp(0.0, 1.0);
        self.from + (self.to - self.from) * if part.is_nan() { 0.0 } else { part }
    }

    /// The round numbers, and their positions.
    pub(super) fn ticks(&self) -> impl Iterator<Item = (String, f64)> {
        let values = (0..=self.steps).map(|count| f64::from(count) * self.step);
        values.map(|value| (number(value), self.position(value)))
    }
}

/// A number with no more decimals than it needs, at most three.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number_at_or_above_the_largest_value() {
        for (max, last, count) in [
            (40.0, "40", 5),
            (108.0, "120", 7),
            (1000.0, "1000", 6),
            (0.7, "0.7", 8),
            (61.0, "70", 8),
            (2.0, "2", 5),
            (0.0, "1", 6),
            (f64::NAN, "1", 6),
        ] {
            let ticks: Vec<_> = Scale::new(max, 0.0, 100.0).ticks().collect();
            assert_eq!((ticks.last().unwrap().0.as_str(), ticks.len()), (last, count), "{max}");
            assert!((ticks.last().unwrap().1 - 100.0).abs() < 1e-9, "{max}");
        }
    }

    #[test]
    fn values_outside_are_at_the_end() {
        let scale = Scale::new(10.0, 100.0, 0.0);
        for (value, position) in
            [(-1.0, 100.0), (0.0, 100.0), (5.0, 50.0), (99.0, 0.0), (f64::NAN, 100.0)]
        {
            assert!((scale.position(value) - position).abs() < 1e-9, "{value}");
        }
    }
}
