//! What can be wrong with a PostgreSQL server: `tidegate doctor`.

use tidegate::StoreError;
use tidegate::driver::{Finding, Severity};
use tokio::time::Instant;
use tokio_postgres::Client;

use crate::error::failed;
use crate::pool::{EXAMINE_DEADLINE, Pool};
use crate::url::{Durability, PostgresUrl};

/// The oldest version that the tests' statements are written for.
const OLDEST_VERSION: i32 = 120_000;

/// What is read from the server; the checks are pure functions of it.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Facts {
    pub(crate) version: i32,
    pub(crate) fsync: bool,
    pub(crate) autovacuum: bool,
    pub(crate) connections_max: i64,
    pub(crate) connections_used: i64,
    pub(crate) rows: i64,
    pub(crate) expired: i64,
    pub(crate) updates: i64,
    pub(crate) updates_on_page: i64,
    pub(crate) replicas: i64,
}

/// Connects and looks.
pub(crate) async fn examine(url: PostgresUrl, nodes: u64) -> Result<Vec<Finding>, StoreError> {
    let (durability, connections) = (url.durability, url.connections);
    let pool = Pool::new(url, std::sync::Arc::default())?;
    let lent = pool.get(Instant::now() + EXAMINE_DEADLINE).await?;
    let facts = match lent.get() {
        Some((client, _)) => read(client, durability).await.map_err(|error| failed(&error))?,
        None => return Ok(Vec::new()),
    };
    lent.give_back();
    Ok(checks(
        &facts,
        durability,
        i64::try_from(nodes)
            .unwrap_or(i64::MAX)
            .saturating_mul(i64::try_from(connections).unwrap_or(i64::MAX)),
    ))
}

async fn read(client: &Client, durability: Durability) -> Result<Facts, tokio_postgres::Error> {
    let table = crate::schema::items(durability);
    let row = client
        .query_one(
            "SELECT current_setting('server_version_num')::int, current_setting('fsync')::bool, \
             current_setting('autovacuum')::bool, current_setting('max_connections')::bigint, \
             (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), \
             (SELECT count(*) FROM pg_stat_replication)",
            &[],
        )
        .await?;
    let statistics = "SELECT n_live_tup, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables \
        WHERE schemaname = 'tidegate' AND relname = $1";
    let of_table = client.query_opt(statistics, &[&table]).await?;
    let count = |place: usize| of_table.as_ref().map_or(Ok(0), |row| row.try_get::<_, i64>(place));
    // The beginning of the table says enough.
    let expired = format!(
        "SELECT count(*) FROM (SELECT expires FROM tidegate.{table} LIMIT 10000) AS beginning \
         WHERE expires < clock_timestamp() - interval '1 hour'"
    );
    Ok(Facts {
        version: row.try_get(0)?,
        fsync: row.try_get(1)?,
        autovacuum: row.try_get(2)?,
        connections_max: row.try_get(3)?,
        connections_used: row.try_get(4)?,
        replicas: row.try_get(5)?,
        rows: count(0)?,
        updates: count(1)?,
        updates_on_page: count(2)?,
        expired: client.query_one(&expired, &[]).await?.try_get(0)?,
    })
}

fn checks(facts: &Facts, durability: Durability, connections: i64) -> Vec<Finding> {
    vec![
        version(facts),
        crash(facts, durability),
        room(facts, connections),
        vacuum(facts),
        bloat(facts),
        sweep(facts),
        replicas(facts),
    ]
}

fn version(facts: &Facts) -> Finding {
    let shown = format!("PostgreSQL {}.{}", facts.version / 10_000, facts.version % 10_000);
    if facts.version < OLDEST_VERSION {
        return Finding::fault("version", shown)
            .risk("statements may fail")
            .remedy("use PostgreSQL 12 or newer");
    }
    Finding::ok("version", format!("{shown}; tests run on 15"))
}

fn crash(facts: &Facts, durability: Durability) -> Finding {
    let check = "durability";
    match durability {
        _ if !facts.fsync => Finding::warning(check, "fsync is off")
            .risk("a crash of the machine may damage the whole database")
            .remedy("ALTER SYSTEM SET fsync = on"),
        Durability::Full => Finding::ok(check, "full: a crash loses no decision"),
        Durability::Asynchronous => {
            Finding::note(check, "async: a crash forgets what was spent in the last moments")
                .risk("up to 0.6 s of admissions may be granted again")
                .remedy("without durability=async in the URL nothing is forgotten")
        }
        Durability::Unlogged => Finding::note(check, "unlogged: a crash forgets what was spent")
            .risk("after a crash all limits start anew")
            .remedy("without durability=unlogged in the URL nothing is forgotten"),
    }
}

fn room(facts: &Facts, wanted: i64) -> Finding {
    let Facts { connections_max: max, connections_used: used, .. } = facts;
    let seen = format!("{used} of {max} connections are used, and tidegate may open {wanted}");
    if used + wanted <= *max {
        return Finding::ok("connections", seen);
    }
    Finding::warning("connections", seen)
        .risk("some nodes would get no connection, and decide by on_store_error")
        .remedy("raise max_connections, lower connections= in the URL, or put a pooler in between")
}

fn vacuum(facts: &Facts) -> Finding {
    if facts.autovacuum {
        return Finding::ok("autovacuum", "on");
    }
    Finding::warning("autovacuum", "off")
        .risk("the table grows with every change that does not fit its page")
        .remedy("ALTER SYSTEM SET autovacuum = on")
}

/// Whether updates stay on their page, and so leave nothing behind.
fn bloat(facts: &Facts) -> Finding {
    let Facts { updates, updates_on_page, rows, .. } = facts;
    let percent = if *updates == 0 { 100 } else { 100 * updates_on_page / updates };
    let seen = format!("{rows} rows, {percent} % of updates stayed on their page");
    let severity = if percent >= 80 || *updates < 1_000 { Severity::Ok } else { Severity::Warning };
    let finding = Finding::new(severity, "bloat", seen);
    if severity == Severity::Ok {
        return finding;
    }
    finding
        .risk("the table grows until it is vacuumed")
        .remedy("VACUUM FULL tidegate.items, and look for long transactions in pg_stat_activity")
}

fn sweep(facts: &Facts) -> Finding {
    if facts.expired == 0 {
        return Finding::ok("sweep", "no row has been expired for long");
    }
    let seen = format!("{} of the first 10000 rows expired more than an hour ago", facts.expired);
    Finding::note("sweep", seen)
        .risk("they take disk space")
        .remedy("a running tidegate removes them, a thousand at a time")
}

fn replicas(facts: &Facts) -> Finding {
    match facts.replicas {
        0 => Finding::note("replicas", "none is connected")
            .risk("if the server is lost, so is what was spent")
            .remedy("add a standby, and name both servers in the URL"),
        count => Finding::ok("replicas", format!("{count} connected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Facts {
        Facts {
            version: 150_018,
            fsync: true,
            autovacuum: true,
            connections_max: 100,
            connections_used: 3,
            rows: 1_000,
            expired: 0,
            updates: 10_000,
            updates_on_page: 9_900,
            replicas: 1,
        }
    }

    #[test]
    fn each_fault_is_found_and_nothing_else() {
        type Break = fn(&mut Facts);
        let rows: [(&str, Break); 7] = [
            ("version", |facts| facts.version = 110_000),
            ("durability", |facts| facts.fsync = false),
            ("connections", |facts| facts.connections_used = 99),
            ("autovacuum", |facts| facts.autovacuum = false),
            ("bloat", |facts| facts.updates_on_page = 100),
            ("sweep", |facts| facts.expired = 5),
            ("replicas", |facts| facts.replicas = 0),
        ];
        let found = |facts: &Facts| -> Vec<&str> {
            let found = checks(facts, Durability::Full, 8);
            let bad = |finding: &&Finding| finding.severity != Severity::Ok;
            assert!(found.iter().filter(bad).all(|it| it.risk.is_some() && it.remedy.is_some()));
            found.iter().filter(bad).map(|finding| finding.check).collect()
        };
        assert_eq!(found(&healthy()), [""; 0]);
        for (check, break_it) in rows {
            let mut facts = healthy();
            break_it(&mut facts);
            assert_eq!(found(&facts), [check]);
        }
    }

    #[test]
    fn what_a_crash_forgets_is_told() {
        for (durability, word) in
            [(Durability::Asynchronous, "0.6 s"), (Durability::Unlogged, "anew")]
        {
            let finding = crash(&healthy(), durability);
            assert!(finding.risk.is_some_and(|risk| risk.contains(word)));
        }
    }
}
