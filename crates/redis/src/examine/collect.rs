//! Collects the facts of one server. It only reads, apart from the keys of `permissions`.

use std::collections::HashMap;

use redis::{Cmd, Value, cmd, pipe};
use tidegate::driver::Laps;
use tidegate::{Clock, SystemClock};

use super::connection::Connection;
use super::facts::{Facts, Fields, Role, Skew, SlowLog};
use super::server::RedisServer;
use super::{Requirements, permissions, scan};

/// The settings that are read, one at a time as Redis before 7 needs it. Never `*`, which would fetch passwords.
const SETTINGS: [&str; 20] = [
    "appendfsync",
    "appendonly",
    "bind",
    "busy-reply-threshold",
    "lazyfree-lazy-eviction",
    "list-max-listpack-size",
    "list-max-ziplist-size",
    "lua-time-limit",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
    "no-appendfsync-on-rewrite",
    "protected-mode",
    "save",
    "stop-writes-on-bgsave-error",
    "tcp-keepalive",
    "timeout",
    "zset-max-listpack-entries",
    "zset-max-ziplist-entries",
];

/// How many round trips are timed at most, and for how long.
const PINGS_MAX: usize = 300;
const BUDGET_US: u64 = 500_000;
/// The best of this many comparisons of clocks counts.
const CLOCK_TRIES: usize = 10;
/// How much of the slow log is read.
const SLOW_ENTRIES: u64 = 16;

pub(super) async fn collect(
    connection: &mut Connection,
    server: &RedisServer,
    requirements: &Requirements,
) -> Facts {
    let login = server.access.login.as_ref();
    let mut facts = Facts {
        role: server.role,
        cli: server.cli.clone(),
        user: login.and_then(|login| login.user.clone()).unwrap_or_default(),
        anonymous: login.is_none(),
        in_clear: server.is_in_clear(),
        prefix: requirements.key_prefix.clone(),
        nodes: requirements.nodes,
        ..Facts::default()
    };
    let info: Option<String> = connection.query("INFO", &cmd("INFO")).await;
    facts.info = Fields::read(&info.unwrap_or_default());
    facts.config = config(connection).await.unwrap_or_default();
    if facts.info.is("cluster_enabled", "1") {
        let info: Option<String> =
            connection.query("CLUSTER INFO", cmd("CLUSTER").arg("INFO")).await;
        facts.cluster = Fields::read(&info.unwrap_or_default());
    }
    facts.pings_us = pings(connection).await.unwrap_or_default();
    facts.skew = skew(connection).await;
    facts.slow = slow(connection).await;
    facts.events = events(connection).await.unwrap_or_default();
    if facts.role != Role::Replica {
        // Before our own keys are among them.
        facts.keys = scan::collect(connection, &requirements.key_prefix).await;
        let behind_sentinels =
            facts.role == Role::Primary && !facts.info.is("cluster_enabled", "1");
        facts.permissions =
            permissions::collect(connection, &requirements.key("permissions"), behind_sentinels)
                .await;
    }
    facts.forbidden.append(&mut connection.forbidden);
    facts
}

async fn config(connection: &mut Connection) -> Option<Fields> {
    let mut all = pipe();
    for name in SETTINGS {
        all.cmd("CONFIG").arg("GET").arg(name);
    }
    let answers: Vec<HashMap<String, String>> = connection.query_all("CONFIG", &all).await?;
    let mut fields = Fields::default();
    fields.extend(answers.into_iter().flatten());
    Some(fields)
}

async fn pings(connection: &mut Connection) -> Option<Vec<u64>> {
    let ping = cmd("PING");
    let mut laps = Laps::new(PINGS_MAX, BUDGET_US);
    while laps.start() {
        connection.query::<Value>("PING", &ping).await?;
        laps.end();
    }
    Some(laps.sorted_us())
}

async fn skew(connection: &mut Connection) -> Option<Skew> {
    let mut best: Option<Skew> = None;
    for _ in 0..CLOCK_TRIES {
        let (start_us, before) = (SystemClock.steady_us(), SystemClock.now());
        let (seconds, micros): (i64, i64) = connection.query("TIME", &cmd("TIME")).await?;
        // The server read its clock about half way through the round trip.
        let within_us = SystemClock.steady_us().saturating_sub(start_us) / 2;
        let there_us = seconds.saturating_mul(1_000_000).saturating_add(micros);
        let here_us = before.as_micros().cast_signed().saturating_add_unsigned(within_us);
        let skew = Skew { ahead_us: there_us.saturating_sub(here_us), within_us };
        if best.is_none_or(|best| skew.within_us < best.within_us) {
            best = Some(skew);
        }
    }
    best
}

async fn slow(connection: &mut Connection) -> Option<SlowLog> {
    let entries: u64 = connection.query("SLOWLOG", cmd("SLOWLOG").arg("LEN")).await?;
    let last: Vec<Vec<Value>> =
        connection.query("SLOWLOG", cmd("SLOWLOG").arg("GET").arg(SLOW_ENTRIES)).await?;
    // An entry is its number, when, how long in µs, and the command, which is private.
    let slowest_us = last.iter().filter_map(|entry| number(entry.get(2)?)).max().unwrap_or(0);
    Some(SlowLog { entries, slowest_us })
}

async fn events(connection: &mut Connection) -> Option<Vec<(String, u64)>> {
    let latest: Cmd = cmd("LATENCY").arg("LATEST").to_owned();
    let events: Vec<Vec<Value>> = connection.query("LATENCY", &latest).await?;
    // An event is its name, when, and how long in ms the last and the longest took.
    let read = |event: &Vec<Value>| {
        let Value::BulkString(name) = event.first()? else { return None };
        Some((String::from_utf8_lossy(name).into_owned(), number(event.get(3)?)?))
    };
    Some(events.iter().filter_map(read).collect())
}

fn number(value: &Value) -> Option<u64> {
    if let Value::Int(number) = value { u64::try_from(*number).ok() } else { None }
}
