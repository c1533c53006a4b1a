//! Connections: how many fit, and what ends them.

use super::{Check, Facts, Finding, counted};

/// Room for one tidegate process: its checks share one connection, those that wait for replicas have four.
const POOL: u64 = 5;
/// While a node is replaced, the old and the new one are connected.
const TURNOVER: u64 = 2;
/// Redis replies BUSY to others only after a script has run this long, in ms. Ours take microseconds.
const BUSY_LEAST_MS: i64 = 100;

pub(super) const CHECKS: &[Check] = &[room, rejected, idle, keepalive, blocked, busy];

fn room(facts: &Facts) -> Option<Finding> {
    let max = facts.setting_number("maxclients")?;
    let now = facts.info.number("connected_clients")?;
    let needed = TURNOVER.saturating_mul(facts.nodes).saturating_mul(POOL);
    let nodes = counted(facts.nodes, "node");
    let seen = format!("maxclients {max}, {now} connected; {nodes} may need {needed}");
    let more = facts.cli(&format!("CONFIG SET maxclients {}", needed.saturating_add(now)));
    Some(if max < needed {
        Finding::warning("maxclients", seen)
            .risk("nodes are turned away, and on_store_error decides for them")
            .remedy(more)
    } else if now.saturating_add(needed) > max {
        Finding::warning("maxclients", format!("{seen}, beside what is connected now"))
            .risk("others and tidegate together do not fit: some are turned away")
            .remedy(more)
    } else {
        Finding::ok("maxclients", seen)
    })
}

fn rejected(facts: &Facts) -> Option<Finding> {
    let rejected = facts.info.number("rejected_connections").filter(|rejected| *rejected > 0)?;
    let seen = format!("{} turned away since it was started", counted(rejected, "connection"));
    let finding = Finding::warning("rejected", seen)
        .risk("maxclients was reached: nodes that were turned away went by on_store_error")
        .remedy(facts.cli("CLIENT LIST"));
    Some(finding)
}

fn idle(facts: &Facts) -> Option<Finding> {
    let seconds = facts.config.number("timeout")?;
    Some(if seconds == 0 {
        Finding::ok("idle", "idle connections are kept")
    } else {
        Finding::note("idle", format!("connections are closed after {seconds} s without a command"))
            .risk("the first check after a pause has to connect anew, and may miss its deadline")
            .remedy(facts.cli("CONFIG SET timeout 0"))
    })
}

fn keepalive(facts: &Facts) -> Option<Finding> {
    let seconds = facts.config.number("tcp-keepalive")?;
    Some(if seconds == 0 {
        Finding::note("keepalive", "tcp-keepalive is off")
            .risk("connections of nodes that vanished stay open, and count as clients")
            .remedy(facts.cli("CONFIG SET tcp-keepalive 300"))
    } else {
        Finding::ok("keepalive", format!("dead connections are noticed after about {seconds} s"))
    })
}

fn blocked(facts: &Facts) -> Option<Finding> {
    let blocked = facts.info.number("blocked_clients")?;
    Some(if blocked == 0 {
        Finding::ok("blocked", "no client waits in a blocking command")
    } else {
        Finding::note(
            "blocked",
            format!("{} waiting in a blocking command", counted(blocked, "client")),
        )
        .risk("none for limits, unless it is WAIT: then replicas are slow")
        .remedy(facts.cli("CLIENT LIST"))
    })
}

fn busy(facts: &Facts) -> Option<Finding> {
    let names = ["busy-reply-threshold", "lua-time-limit"];
    let (name, ms) = facts.config.first_number(names)?;
    Some(if (1..BUSY_LEAST_MS).contains(&ms) {
        Finding::note("busy", format!("{name} is {ms} ms"))
            .risk("a script of somebody else that runs longer makes checks fail with BUSY instead of waiting")
            .remedy(facts.cli(&format!("CONFIG SET {name} 5000")))
    } else {
        Finding::ok("busy", format!("{name} is {ms} ms; our scripts take microseconds"))
    })
}
