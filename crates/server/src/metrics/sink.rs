//! Where gathered metrics go: the Prometheus page, or an OpenTelemetry export.

use std::fmt;

use super::catalog::Family;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Figure {
    Whole(u64),
    Real(f64),
}

/// Takes families one after another, each followed by its samples.
pub(super) trait Sink {
    /// Begins a family; its samples follow.
    fn family(&mut self, family: &Family);

    /// One sample. Samples of a histogram have a suffix.
    fn line<'a>(
        &mut self,
        family: &Family,
        suffix: &'static str,
        labels: impl Iterator<Item = (&'static str, &'a str)>,
        value: Figure,
    );

    fn sample(&mut self, family: &Family, labels: &[&str], value: impl Into<Figure>) {
        let labels = family.labels.iter().copied().zip(labels.iter().copied());
        self.line(family, "", labels, value.into());
    }

    /// A family of samples, each with the values of its labels.
    fn samples<const N: usize, V: Into<Figure>>(
        &mut self,
        family: &Family,
        samples: impl IntoIterator<Item = ([impl AsRef<str>; N], V)>,
    ) {
        self.family(family);
        for (labels, value) in samples {
            self.sample(family, &labels.each_ref().map(AsRef::as_ref), value);
        }
    }

    /// A family of one sample.
    fn single(&mut self, family: &Family, value: impl Into<Figure>) {
        self.family(family);
        self.sample(family, &[], value);
    }

    /// The samples of one histogram; the last bucket has no bound.
    fn histogram(
        &mut self,
        family: &Family,
        labels: &[&str],
        (bounds_s, counts): (&[f64], &[u64]),
        sum_s: f64,
    ) {
        let labels = || family.labels.iter().copied().zip(labels.iter().copied());
        let bounds = bounds_s.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut so_far = 0;
        for (bound, count) in bounds.zip(counts) {
            so_far += count;
            let labels = labels().chain([("le", bound.as_str())]);
            self.line(family, "_bucket", labels, so_far.into());
        }
        self.line(family, "_sum", labels(), sum_s.into());
        self.line(family, "_count", labels(), so_far.into());
    }
}

impl From<u64> for Figure {
    fn from(count: u64) -> Self {
        Self::Whole(count)
    }
}

impl From<usize> for Figure {
    fn from(count: usize) -> Self {
        Self::Whole(count as u64)
    }
}

impl From<f64> for Figure {
    fn from(figure: f64) -> Self {
        Self::Real(figure)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(count) => count.fmt(f),
            Self::Real(figure) => figure.fmt(f),
        }
    }
}
