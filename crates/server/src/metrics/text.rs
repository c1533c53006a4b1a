//! Prometheus' text format, version 0.0.4.

use std::fmt::Write;

use super::catalog::Family;
use super::sink::{Figure, Sink};

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page being written. Writing to memory does not fail.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn finish(self) -> String {
        self.0
    }
}

impl Sink for Text {
    fn family(&mut self, family: &Family) {
        let Family { name, kind, help, .. } = family;
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
    }

    fn line<'a>(
        &mut self,
        family: &Family,
        suffix: &'static str,
        labels: impl Iterator<Item = (&'static str, &'a str)>,
        value: Figure,
    ) {
        let _ = write!(self.0, "{}{suffix}", family.name);
        let mut closing = "";
        for (label, value) in labels {
            let opening = if closing.is_empty() { '{' } else { ',' };
            let _ = write!(self.0, "{opening}{label}=\"{}\"", escaped(value));
            closing = "}";
        }
        let _ = writeln!(self.0, "{closing} {value}");
    }
}

/// Escapes the three characters that a label value may not contain.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::super::catalog::Kind;
    use super::*;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut text = Text::default();
        let kind = Kind::Counter;
        let plain = Family { name: "a_total", kind, labels: &[], help: "Help." };
        text.single(&plain, 1_u64);
        let labelled = Family { name: "b", kind: Kind::Gauge, labels: &["x", "y"], help: "More." };
        text.family(&labelled);
        text.sample(&labelled, &["say \"\\\"", "two\nlines"], 2.5);
        let expected = "# HELP a_total Help.\n# TYPE a_total counter\na_total 1\n\
             # HELP b More.\n# TYPE b gauge\nb{x=\"say \\\"\\\\\\\"\",y=\"two\\nlines\"} 2.5\n";
        assert_eq!(text.finish(), expected);
    }

    #[test]
    fn histogram_buckets_are_cumulative() {
        let mut text = Text::default();
        let kind = Kind::Histogram;
        let family = Family { name: "t_seconds", kind, labels: &["door"], help: "Help." };
        text.histogram(&family, &["http"], (&[0.000_002_5, 1.0], &[1, 2, 4]), 9.5);
        let expected = "t_seconds_bucket{door=\"http\",le=\"0.0000025\"} 1\n\
             t_seconds_bucket{door=\"http\",le=\"1\"} 3\n\
             t_seconds_bucket{door=\"http\",le=\"+Inf\"} 7\n\
             t_seconds_sum{door=\"http\"} 9.5\nt_seconds_count{door=\"http\"} 7\n";
        assert_eq!(text.finish(), expected);
    }
}
