//! What the options of simulations have in common.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::text::duration;
use tidegate_core::{parse_duration, read_rate};

use super::svg::Chart;
use crate::output::{decimal, print_report, whole_number};
use crate::{Failure, OK};
use tidegate_simulation::{Expected, Experiment, InputError, float};

#[derive(Clone, Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a picture (SVG) to FILE as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl OutputArgs {
    /// Runs an experiment, and prints its report.
    pub(super) fn run<E: Experiment>(
        &self,
        experiment: &E,
        chart: fn(&E::Report) -> Chart,
        text: fn(&E::Report) -> String,
    ) -> Result<ExitCode, Failure> {
        let report = experiment.run().map_err(|error| usage(&error))?;
        self.write(&report, chart, text)
    }

    /// Writes the picture first, because a failure to do so must not look like success.
    pub(super) fn write<R: Serialize>(
        &self,
        report: &R,
        chart: fn(&R) -> Chart,
        text: fn(&R) -> String,
    ) -> Result<ExitCode, Failure> {
        if let Some(file) = &self.svg {
            let cannot = |error| Failure::new(format!("cannot write {}: {error}", file.display()));
            fs::write(file, chart(report).to_svg()).map_err(cannot)?;
        }
        print_report(report, self.json, || text(report))?;
        Ok(ExitCode::from(OK))
    }
}

/// A duration in whole milliseconds.
pub(super) fn read_ms(text: &str) -> Result<u64, String> {
    let span = parse_duration(text).filter(|span| span.subsec_micros().is_multiple_of(1000));
    let ms = span.and_then(|span| u64::try_from(span.as_millis()).ok());
    ms.ok_or_else(|| "expected a duration in whole milliseconds like 250ms or 60s".to_owned())
}

/// The units of a window, whose length is an option of its own.
pub(super) fn read_units(text: &str) -> Result<u64, String> {
    if let Ok(units) = text.parse() {
        return Ok(units);
    }
    let rate =
        read_rate(text).ok().and_then(|(units, period)| Some((units, period.length().ok()?)));
    Err(match rate {
        Some((units, window)) => {
            let window = duration(window);
            format!(
                "expected units, and their window apart: write --limit {units} --window {window}"
            )
        }
        None => whole_number(text),
    })
}

/// A percentage, in thousandths.
pub(super) fn read_percent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    decimal(number, 1).ok_or_else(|| "expected a percentage like 85% or 99.9%".to_owned())
}

/// A multiple, in thousandths.
pub(super) fn read_multiple(text: &str) -> Result<u64, String> {
    decimal(text, 3).ok_or_else(|| "expected a multiple like 2 or 1.5".to_owned())
}

/// A duration as people write it.
pub(super) fn format_ms(ms: u64) -> String {
    match Duration::from_millis(ms) {
        Duration::ZERO => "0s".to_owned(),
        whole if ms.is_multiple_of(3_600_000) => format!("{}h", whole.as_secs() / 3600),
        span => format!("{span:?}"),
    }
}

/// A parameter out of its bounds as an option of the command line: `window_ms` is `--window` there, in any unit.
pub(super) fn usage(error: &InputError) -> Failure {
    let (name, format): (_, fn(u64) -> String) = match error.field.rsplit_once('_') {
        Some((name, "ms")) => (name, format_ms),
        Some((name, "permille")) => (name, |value| format!("{}%", float(value) / 10.0)),
        Some((name, "milli")) => (name, |value| (float(value) / 1000.0).to_string()),
        _ => (error.field, |value| value.to_string()),
    };
    let expected = match &error.expected {
        Expected::Between(min, max) => format!("{} to {}", format(*min), format(*max)),
        Expected::Other(expected) => expected.clone(),
    };
    Failure::usage(format!("--{}: expected {expected}", name.replace('_', "-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_durations_are_exact_or_refused() {
        let read = |text| read_percent(text).ok();
        assert_eq!(["85%", "85", "99.9 %"].map(read), [Some(850), Some(850), Some(999)]);
        for bad in ["", "%", "99.99%", "99999999999999999999%"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!([read_ms("1s"), read_ms("250ms")], [Ok(1000), Ok(250)]);
        assert!(read_ms("1500us").is_err() && read_ms("7").is_err());
        assert_eq!(read_units("100"), Ok(100));
        assert!(read_units("100/min").unwrap_err().ends_with("write --limit 100 --window 1min"));
        assert!(read_units("1,000").unwrap_err().ends_with("write 1000"));
    }
}
