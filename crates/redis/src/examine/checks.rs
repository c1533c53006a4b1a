//! The checks: pure functions from the facts of a server to findings.

mod access;
mod clients;
mod cluster;
mod keys;
mod latency;
mod memory;
mod persistence;
mod replication;
mod server;
mod store;

use super::facts::Facts;
use tidegate::driver::Finding;

pub(super) use store::not_reached;

type Check = fn(&Facts) -> Option<Finding>;

/// In the order in which they are printed.
const CHECKS: [&[Check]; 10] = [
    server::CHECKS,
    access::CHECKS,
    cluster::CHECKS,
    replication::CHECKS,
    memory::CHECKS,
    persistence::CHECKS,
    clients::CHECKS,
    latency::CHECKS,
    keys::CHECKS,
    &[not_permitted],
];

/// All findings of a server.
pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    CHECKS.iter().flat_map(|checks| run(checks, facts)).collect()
}

fn run(checks: &[Check], facts: &Facts) -> Vec<Finding> {
    checks.iter().filter_map(|check| check(facts)).collect()
}

/// Providers of Redis often forbid these commands.
fn not_permitted(facts: &Facts) -> Option<Finding> {
    if facts.forbidden.is_empty() {
        return None;
    }
    let commands = facts.forbidden.join(", ");
    Some(
        Finding::note("permitted", format!("not permitted to look: {commands}"))
            .risk("what they would have told was not checked; limits do not need them")
            .remedy(
                "run the doctor as a user that may, or look into the settings of whoever runs Redis",
            ),
    )
}

/// Bytes as people read them.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let (mut whole, mut rest, mut unit) = (count / 1024, count % 1024, 0);
    while whole >= 1024 && unit + 1 < UNITS.len() {
        (whole, rest, unit) = (whole / 1024, whole % 1024, unit + 1);
    }
    format!("{whole}.{} {}", rest * 10 / 1024, UNITS[unit])
}

/// `1 key`, `2 keys`.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests;
