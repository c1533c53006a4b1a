//! The results of the loop, as tables and a verdict.

use std::fmt;

use serde::Serialize;

use super::picture;
use crate::load::Figures;
use crate::report::{sparkline, table};

#[derive(Serialize)]
pub(crate) struct Report {
    /// Without tidegate: in a closed loop with as many clients as keep the pool busy, then open loads around that.
    pub(crate) unlimited: Vec<Figures>,
    /// Overloaded, without tidegate.
    pub(crate) direct: Figures,
    /// Overloaded, with the loop.
    pub(crate) with_loop: Followed,
    /// The same, and the sidecar is killed halfway.
    pub(crate) sidecar_killed: Figures,
    /// The parts of the policy alone, overloaded: the limit that follows, and what it is after the load has gone; the
    /// same limit if it does not follow; the places.
    pub(crate) limit_alone: Followed,
    pub(crate) recovered: u64,
    pub(crate) static_limit: Figures,
    pub(crate) places_alone: Figures,
    pub(crate) verdict: Verdict,
}

/// A load, and the limit in force at the end of each second.
#[derive(Serialize)]
pub(crate) struct Followed {
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) limit_by_second: Vec<u64>,
}

/// The requirements, and whether they are met.
#[derive(Serialize)]
pub(crate) struct Verdict {
    /// The highest goodput without tidegate and without overload.
    pub(crate) best_per_s: f64,
    /// Goodput without tidegate as a share of the best: at most a half, otherwise the app was not overloaded.
    goodput_without: f64,
    /// Goodput with the loop as a share of the best: at least 0.9.
    goodput_with: f64,
    /// Errors of the app with the loop: 0.
    errors_of_app: u64,
}

impl Verdict {
    pub(crate) fn new(unlimited: &[Figures], direct: &Figures, with_loop: &Figures) -> Self {
        let best_per_s = unlimited.iter().map(|it| it.goodput_per_s).fold(0.0, f64::max);
        Self {
            best_per_s,
            goodput_without: direct.goodput_per_s / best_per_s,
            goodput_with: with_loop.goodput_per_s / best_per_s,
            errors_of_app: with_loop.errors_of_app,
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.lines().iter().all(|(is_met, _)| *is_met)
    }

    fn lines(&self) -> [(bool, String); 3] {
        let Self { goodput_without, goodput_with, errors_of_app, .. } = self;
        [
            (
                *goodput_without <= 0.5,
                format!("without tidegate goodput falls to {goodput_without:.2} of the best"),
            ),
            (*goodput_with >= 0.9, format!("with the loop it is {goodput_with:.2} (≥ 0.9)")),
            (*errors_of_app == 0, format!("the app has made {errors_of_app} errors (0)")),
        ]
    }
}

impl Report {
    pub(crate) fn svg(&self) -> String {
        picture::svg(self)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nWithout tidegate\n")?;
        let names = ["16 at a time", "0.8 × of that", "0.9 ×", "as much"];
        let mut rows: Vec<_> = names.into_iter().zip(&self.unlimited).collect();
        rows.push(("3 × the load", &self.direct));
        table(f, &rows)?;
        writeln!(f, "\nWith the loop, under 3 × the load\n")?;
        table(f, &[("the loop", &self.with_loop.figures), ("sidecar dies", &self.sidecar_killed)])?;
        writeln!(f, "\nThe parts alone, under 3 × the load\n")?;
        let parts = [
            ("static limit", &self.static_limit),
            ("limit follows", &self.limit_alone.figures),
            ("places", &self.places_alone),
        ];
        table(f, &parts)?;
        writeln!(f, "\nGood answers, second by second, under 3 × the load\n")?;
        let best = self.verdict.best_per_s;
        writeln!(f, "    without  {}", sparkline(&self.direct.good_by_second, best))?;
        writeln!(f, "    with     {}\n", sparkline(&self.with_loop.figures.good_by_second, best))?;
        for (is_met, line) in self.verdict.lines() {
            writeln!(f, "{} {line}", if is_met { "✓" } else { "✗" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(goodput_without: f64, goodput_with: f64, errors_of_app: u64) -> Verdict {
        Verdict { best_per_s: 400.0, goodput_without, goodput_with, errors_of_app }
    }

    #[test]
    fn each_requirement_alone_can_fail() {
        assert!(verdict(0.5, 0.9, 0).is_met());
        for broken in [
            verdict(0.6, 0.9, 0),
            verdict(0.5, 0.89, 0),
            verdict(0.5, 0.9, 1),
            verdict(0.5, f64::NAN, 0),
        ] {
            assert!(!broken.is_met());
        }
    }
}
