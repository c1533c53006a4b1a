//! `ONLY=bloat`: what millions of decisions leave in PostgreSQL, with leases off.

use std::sync::Arc;
use std::time::Instant;

use tidegate_testkit::processes::{DEADLINE, PostgresServer, wait_until};

use crate::Scale;
use crate::contender::Contender;
use crate::load::{self, ASKERS, Scenario, Until};
use crate::table::{short, thousands};

/// Sizes in MB, rows, and counts since the start.
const STATE: &str = "SELECT pg_table_size(relid) / 1e6, pg_indexes_size(relid) / 1e6, n_live_tup, n_dead_tup, \
    n_tup_upd, n_tup_hot_upd, autovacuum_count FROM pg_stat_user_tables WHERE relname = 'items'";

pub(crate) async fn measure(scale: &Scale) {
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
    print(scale, figures.rate * took.as_secs_f64(), &before, &state(&server));
    println!("\n{} decisions/s, for {:.0} s", thousands(figures.rate), took.as_secs_f64());
}

/// Each connection reports its statistics when it ends.
fn state(server: &PostgresServer) -> Vec<f64> {
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidegate'";
    wait_until("the connections to end", DEADLINE, || server.sql(connections) == "0");
    let row = server.sql(STATE);
    row.split('|').map(|figure| figure.parse().expect("a number")).collect()
}

fn print(scale: &Scale, decisions: f64, before: &[f64], after: &[f64]) {
    let keys = thousands(scale.keys as f64);
    println!(
        "\n| PostgreSQL, `full`, {keys} keys | at the start | after {} decisions |",
        thousands(decisions)
    );
    println!("|---|--:|--:|");
    for (index, (what, format)) in [
        ("table, MB", short as fn(f64) -> String),
        ("index, MB", short),
        ("rows", thousands),
        ("dead rows", thousands),
    ]
    .into_iter()
    .enumerate()
    {
        println!("| {what} | {} | {} |", format(before[index]), format(after[index]));
    }
    let (updates, hot) = (after[4] - before[4], after[5] - before[5]);
    println!("| rows updated | | {} |", thousands(updates));
    println!("| … without touching the index (HOT) | | {} % |", short(hot / updates * 100.0));
    println!("| autovacuum runs | | {} |", after[6] - before[6]);
}
