//! Measures a run: goodput, latency, variation, settling time.

use std::ops::Range;

use super::ControllerRow;
use super::scenario::Scenario;
use crate::{float, index};

/// A run has settled once its goodput stays within this much of its final value.
const SETTLED_WITHIN: f64 = 0.15;
/// Seconds that are averaged to reduce random variation.
const OVER_S: usize = 5;
/// The least number of values whose variation means anything.
const VALUES_MIN: usize = 8;

/// The counts of a run.
pub(super) struct Meter {
    judged_us: Range<u64>,
    /// Served in time, by second.
    good: Vec<u32>,
    /// Those of people, while judged.
    people: u64,
    latencies_us: Vec<u32>,
    pub(super) refused: u64,
    pub(super) false_rejects: u64,
}

impl Meter {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let judged = scenario.judged_s();
        Self {
            judged_us: judged.start * 1_000_000..judged.end * 1_000_000,
            good: vec![0; index(scenario.ends_s())],
            people: 0,
            latencies_us: Vec::new(),
            refused: 0,
            false_rejects: 0,
        }
    }

    pub(super) fn served(&mut self, now_us: u64, took_us: u64, in_time: bool, is_bot: bool) {
        let is_judged = self.judged_us.contains(&now_us);
        if in_time && let Some(good) = self.good.get_mut(index(now_us / 1_000_000)) {
            *good += 1;
            self.people += u64::from(is_judged && !is_bot);
        }
        if is_judged {
            self.latencies_us.push(u32::try_from(took_us).unwrap_or(u32::MAX));
        }
    }

    pub(super) fn row(mut self, scenario: &Scenario, controller: &'static str) -> ControllerRow {
        let course: Vec<f64> = self.good.iter().map(|count| f64::from(*count)).collect();
        let judged = scenario.judged_s();
        let lasts_s = float(judged.end - judged.start);
        let good = &course[index(judged.start)..index(judged.end)];
        // The settling time describes the start.
        let late = &good[OVER_S.min(good.len())..];
        ControllerRow {
            controller,
            goodput: good.iter().sum::<f64>() / lasts_s,
            people: (scenario.bots_percent > 0).then(|| float(self.people) / lasts_s),
            p99_ms: self.p99_us() / 1000.0,
            cv_1s: variation(late),
            cv_5s: variation(&late.chunks_exact(OVER_S).map(mean).collect::<Vec<_>>()),
            settling_s: settling(good).map(|second| float(second as u64)),
            refused: float(self.refused),
            false_rejects: float(self.false_rejects),
            course,
        }
    }

    fn p99_us(&mut self) -> f64 {
        let place = self.latencies_us.len() * 99 / 100;
        if place >= self.latencies_us.len() {
            return 0.0;
        }
        f64::from(*self.latencies_us.select_nth_unstable(place).1)
    }
}

/// From which second on the mean of five stays near the mean of the second half.
fn settling(good: &[f64]) -> Option<usize> {
    let end = mean(&good[good.len() / 2..]);
    let is_near = |five: &[f64]| (mean(five) - end).abs() <= end * SETTLED_WITHIN;
    let near: Vec<bool> = good.windows(OVER_S).map(is_near).collect();
    let settled = near.iter().rposition(|near| !near).map_or(0, |last| last + 1);
    (settled < near.len() / 2 && end > 0.0).then_some(settled)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / float(values.len().max(1) as u64)
}

/// The standard deviation as a part of the mean, where there is one.
fn variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    if values.len() < VALUES_MIN || mean <= 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / float(values.len() as u64 - 1)).sqrt() / mean)
}

impl ControllerRow {
    /// The means of several runs of one scenario, rounded, and the course of the first. A measure that one run lacks
    /// has no mean: a scenario has settled if all runs have.
    pub(super) fn mean(runs: &[Self]) -> Self {
        let rounded = |values: &[f64], to: f64| (mean(values) * to).round() / to;
        let mean_of =
            |value: fn(&Self) -> f64| rounded(&runs.iter().map(value).collect::<Vec<_>>(), 10.0);
        let mean_if_all = |to, value: fn(&Self) -> Option<f64>| {
            let values: Option<Vec<_>> = runs.iter().map(value).collect();
            values.map(|values| rounded(&values, to))
        };
        Self {
            controller: runs[0].controller,
            goodput: mean_of(|run| run.goodput),
            people: mean_if_all(10.0, |run| run.people),
            p99_ms: mean_of(|run| run.p99_ms),
            cv_1s: mean_if_all(1000.0, |run| run.cv_1s),
            cv_5s: mean_if_all(1000.0, |run| run.cv_5s),
            settling_s: mean_if_all(10.0, |run| run.settling_s),
            refused: mean_of(|run| run.refused),
            false_rejects: mean_of(|run| run.false_rejects),
            course: runs[0].course.clone(),
        }
    }
}
