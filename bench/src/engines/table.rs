//! Figures of rounds, as tables.

use tidegate_bench::report::{Figure, Table};

use crate::load::Scenario;

/// What was measured in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Decisions per second.
    pub(crate) rate: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// CPU time of the servers per decision.
    pub(crate) server_us: f64,
    /// CPU time of the askers' process per decision.
    pub(crate) own_us: f64,
    /// Decisions made again, per decision.
    pub(crate) conflicts: f64,
}

/// The rounds of one engine or peer.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) rounds: Vec<Figures>,
}

impl Row {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rounds: Vec::new() }
    }

    pub(crate) fn rounds(&self, of: impl Fn(&Figures) -> f64) -> Vec<f64> {
        self.rounds.iter().map(of).collect()
    }
}

/// The rows of a scenario. Ratios are to the row of this name: they say how engines differ, not how good one is.
pub(crate) fn of_scenario(scenario: Scenario, rows: &[Row], beside: &str) -> Table {
    let ratio = format!("ratio to {beside}");
    let columns = ["decisions/s", &ratio, "p50", "p99", "servers' CPU", "our CPU", "decided again"];
    let mut table = Table::new(scenario.id, scenario.title, columns);
    let base = find(rows, beside).map(|row| row.rounds(|it| it.rate));
    for row in rows {
        let rates = row.rounds(|it| it.rate);
        let conflicts = row.rounds(|it| it.conflicts * 100.0);
        let cells = [
            Figure::more("", &rates).into(),
            base.as_ref().map(|base| Figure::ratio(&rates, base).unjudged()).into(),
            Figure::less("µs", &row.rounds(|it| it.p50_us)).into(),
            Figure::less("µs", &row.rounds(|it| it.p99_us)).into(),
            Figure::less("µs", &row.rounds(|it| it.server_us)).into(),
            Figure::less("µs", &row.rounds(|it| it.own_us)).into(),
            Figure::less("%", &conflicts).into(),
        ];
        table.row(row.name.clone(), cells);
    }
    table
}

pub(crate) fn find<'a>(rows: &'a [Row], name: &str) -> Option<&'a Row> {
    rows.iter().find(|row| row.name == name)
}
