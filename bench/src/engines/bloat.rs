//! `ONLY=bloat`: what millions of decisions leave in PostgreSQL, with leases off.

use std::sync::Arc;
use std::time::Instant;

use tidegate_bench::report::{Cell, Figure, Report, Table, number};
use tidegate_testkit::processes::{DEADLINE, PostgresServer, wait_until};

use crate::Scale;
use crate::contender::Contender;
use crate::load::{self, ASKERS, Scenario, Until};

/// Sizes in MB, rows, and counts since the start.
const STATE: &str = "SELECT pg_table_size(relid) / 1e6, pg_indexes_size(relid) / 1e6, n_live_tup, n_dead_tup, \
    n_tup_upd, n_tup_hot_upd, autovacuum_count FROM pg_stat_user_tables WHERE relname = 'items'";

pub(crate) async fn measure(scale: &Scale, report: &mut Report) {
    let server = Arc::new(PostgresServer::builder().setting("fsync=on").start());
    let contender = Contender::new("PostgreSQL", server.url(), vec![server.clone()]);
    let node = Arc::new(contender.node());
    load::fill(&node, scale.keys).await;
    drop(node);
    let before = state(&server);
    let (node, start) = (Arc::new(contender.node()), Instant::now());
    let until = Until::Checks(scale.decisions / ASKERS);
    let figures = load::round(&contender, &[node], Scenario::many_keys(scale.keys), until).await;
    let took = start.elapsed();
    let mut table = table(scale, &before, &state(&server));
    let decisions = figures.rate * took.as_secs_f64();
    table.row("decisions", [Cell::Empty, Figure::neither("", &[decisions]).into()]);
    table.row("decisions/s", [Cell::Empty, Figure::more("", &[figures.rate]).into()]);
    table.row("seconds", [Cell::Empty, Figure::neither("", &[took.as_secs_f64()]).into()]);
    report.add(&table);
}

/// Each connection reports its statistics when it ends.
fn state(server: &PostgresServer) -> Vec<f64> {
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";
    wait_until("the connections to end", DEADLINE, || server.sql(connections) == "0");
    let row = server.sql(STATE);
    row.split('|').map(|figure| figure.parse().expect("a number")).collect()
}

fn table(scale: &Scale, before: &[f64], after: &[f64]) -> Table {
    let title = format!("PostgreSQL, `full`, {} keys", number(scale.keys as f64, 0));
    let mut table = Table::new("bloat", title, ["at the start", "at the end"]);
    for (index, (what, decimals)) in
        [("table, MB", 1), ("index, MB", 1), ("rows", 0), ("dead rows", 0)].into_iter().enumerate()
    {
        let cell = |state: &[f64]| Figure::less("", &[state[index]]).decimals(decimals).into();
        table.row(what, [cell(before), cell(after)]);
    }
    let (updates, hot) = (after[4] - before[4], after[5] - before[5]);
    let last =
        |unit, figure: f64| [Cell::Empty, Figure::neither(unit, &[figure]).decimals(0).into()];
    table.row("rows updated", last("", updates));
    table.row("… without touching the index (HOT)", last("%", hot / updates * 100.0));
    table.row("autovacuum runs", last("", after[6] - before[6]));
    table
}
