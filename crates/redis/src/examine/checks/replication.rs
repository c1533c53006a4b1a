//! Replicas, and how far they are behind.

use super::{Check, Facts, Finding, counted};
use crate::examine::facts::{Fields, Role};

/// Replicas report once a second; more than this is late.
const LAG_S: u64 = 2;

pub(super) const CHECKS: &[Check] = &[replication, min_replicas];

fn replication(facts: &Facts) -> Option<Finding> {
    match facts.info.text("role")? {
        "slave" => Some(replica(facts)),
        "master" => primary(facts),
        _ => None,
    }
}

fn replica(facts: &Facts) -> Finding {
    let info = &facts.info;
    let host = info.text("master_host").unwrap_or("?");
    let port = info.text("master_port").unwrap_or("?");
    let of = format!("a replica of {host}:{port}");
    if facts.role != Role::Replica {
        return Finding::fault("replication", of)
            .risk("every check fails with READONLY, and on_store_error decides")
            .remedy(format!(
                "--store redis://{host}:{port}, or redis+sentinel:// to follow failovers"
            ));
    }
    if info.is("master_link_status", "up") {
        let ago = info.text("master_last_io_seconds_ago").unwrap_or("?");
        return Finding::ok("replication", format!("{of}, last heard of {ago} s ago"));
    }
    Finding::warning("replication", format!("{of}, which it does not reach"))
        .risk("it falls behind: promoted now, it would forget what was counted since")
        .remedy(facts.cli("INFO replication"))
}

/// One `slaveN` line of `INFO`: `ip=…,port=…,state=online,offset=42,lag=0`.
fn late(fields: &Fields, number: u64, written: u64) -> Option<String> {
    let line = fields.text(&format!("slave{number}"))?;
    let of = |name: &str| {
        line.split(',')
            .find_map(|pair| pair.split_once('=').filter(|it| it.0 == name))
            .map(|it| it.1)
    };
    let (ip, port) = (of("ip").unwrap_or("?"), of("port").unwrap_or("?"));
    let state = of("state").unwrap_or("?");
    let lag: u64 = of("lag").and_then(|lag| lag.parse().ok()).unwrap_or(0);
    if state == "online" && lag <= LAG_S {
        return None;
    }
    let behind = written.saturating_sub(of("offset").and_then(|it| it.parse().ok()).unwrap_or(0));
    Some(format!("{ip}:{port} is {state}, heard of {lag} s ago, {behind} bytes behind"))
}

fn primary(facts: &Facts) -> Option<Finding> {
    let count = facts.info.number("connected_slaves")?;
    if count == 0 {
        let finding = Finding::note("replication", "no replica")
            .risk("if this server is lost, so is every counter, and until it is back on_store_error decides")
            .remedy("redis-cli -h REPLICA REPLICAOF HOST PORT    # then redis+sentinel:// or redis+cluster://");
        return Some(finding);
    }
    let written = facts.info.number("master_repl_offset").unwrap_or(0);
    // As many as Redis lists; a handful.
    let late: Vec<_> = (0..count.min(64)).filter_map(|n| late(&facts.info, n, written)).collect();
    Some(if late.is_empty() {
        Finding::ok("replication", format!("{}, none late", counted(count, "replica")))
    } else {
        Finding::warning(
            "replication",
            format!("{}; {}", counted(count, "replica"), late.join("; ")),
        )
        .risk("a failover to it would forget what was counted meanwhile")
        .remedy(facts.cli("INFO replication"))
    })
}

fn min_replicas(facts: &Facts) -> Option<Finding> {
    facts.info.text("role").filter(|role| *role == "master")?;
    let wanted = facts.config.number("min-replicas-to-write")?;
    let count = facts.info.number("connected_slaves")?;
    let good = facts.info.number("min_slaves_good_slaves").unwrap_or(count);
    if wanted > 0 && good < wanted {
        let seen = format!("min-replicas-to-write is {wanted}, and {good} replicas are well");
        let finding = Finding::fault("min-replicas", seen)
            .risk("writes are refused with NOREPLICAS, and on_store_error decides")
            .remedy(facts.cli(&format!("CONFIG SET min-replicas-to-write {good}")));
        return Some(finding);
    }
    if count == 0 {
        return None;
    }
    Some(if wanted == 0 {
        Finding::note("min-replicas", "min-replicas-to-write is 0")
            .risk("a primary cut off from its replicas goes on counting: until nodes leave it, up to one more burst per key")
            .remedy(facts.cli("CONFIG SET min-replicas-to-write 1"))
    } else {
        Finding::ok("min-replicas", format!("min-replicas-to-write is {wanted}, {good} are well"))
    })
}
