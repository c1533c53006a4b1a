//! Whether a figure grows: the slope of a straight line through it, by least squares.

pub(crate) struct Trend {
    pub(crate) slope: f64,
    /// As if the points were independent. Memory changes in steps, so it is larger in truth.
    pub(crate) standard_error: f64,
}

impl Trend {
    /// Needs three points: two are always on a line.
    pub(crate) fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x_mean, y_mean) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
        let together: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
        if points.len() < 3 || spread == 0.0 {
            return None;
        }
        let slope = together / spread;
        let off = |(x, y): &(f64, f64)| (y - y_mean - slope * (x - x_mean)).powi(2);
        let residual = points.iter().map(off).sum::<f64>() / (count - 2.0);
        Some(Self { slope, standard_error: (residual / spread).sqrt() })
    }
}
