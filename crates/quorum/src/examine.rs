//! What can be wrong with a quorum: `tidegate doctor`.

use std::time::Duration;

use redis::{Value as Wire, cmd};
use tidegate::driver::Finding;
use tidegate::store_kit::written_life_max;
use tidegate::{Clock, StoreError, StoreErrorKind, SystemClock};
use tidegate_core::text::rfc3339;
use tidegate_redis::{Access, Endpoint, ServerConnection};
use tokio::time::timeout;

use crate::rounds::majority;
use crate::standing::Standing;
use crate::url::QuorumUrl;

/// How long one server may take to answer.
const DEADLINE: Duration = Duration::from_secs(2);

/// `INFO` has a few kilobytes.
const REPLY_BYTES_MAX: u64 = 4 << 20;

/// Clocks that differ by more than this are not kept in step.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_millis(500);

/// What one server says.
struct Facts {
    /// `None` if the user may not read it.
    info: Option<String>,
    marker: Option<Vec<u8>>,
    /// Its clock beside this machine's, in microseconds.
    ahead_us: i64,
}

/// Connects to each server and looks.
pub(crate) async fn examine(url: &QuorumUrl, access: &Access, key_prefix: &str) -> Vec<Finding> {
    let (mut findings, mut clocks, mut reached) = (Vec::new(), Vec::new(), 0);
    for server in url.servers() {
        let found = match timeout(DEADLINE, facts(server, access, key_prefix)).await {
            Ok(Ok(facts)) => {
                reached += 1;
                clocks.push(facts.ahead_us);
                checks(&facts)
            }
            Ok(Err(error)) => vec![not_examined(&error)],
            Err(_) => {
                vec![not_examined(&StoreError::new(
                    StoreErrorKind::Timeout,
                    "no answer within 2 s",
                ))]
            }
        };
        findings.extend(found.into_iter().map(|finding| finding.at(&server.to_string())));
    }
    findings.push(majority_of(reached, url.servers().count()));
    findings.push(clock_difference(&clocks));
    findings
}

async fn facts(server: &Endpoint, access: &Access, prefix: &str) -> Result<Facts, StoreError> {
    let (connection, driver) = ServerConnection::open(server, access, REPLY_BYTES_MAX).await?;
    let driver = tokio::spawn(driver);
    let call = async |name: &str, args: &[&str]| {
        let mut command = cmd(name);
        command.arg(args);
        connection.call(&command).await
    };
    let before = SystemClock.now().as_micros();
    let time = call("TIME", &[]).await?;
    let here = before.midpoint(SystemClock.now().as_micros());
    let there = time_of(&time).unwrap_or(here);
    let info = match call("INFO", &[]).await {
        Ok(Wire::BulkString(bytes)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Ok(Wire::SimpleString(text) | Wire::VerbatimString { text, .. }) => Some(text),
        Ok(_) => None,
        // No check needs it.
        Err(error) if error.kind() == StoreErrorKind::Denied => None,
        Err(error) => return Err(error),
    };
    let marker = match call("GET", &[&format!("{prefix}:q:since")]).await? {
        Wire::BulkString(bytes) => Some(bytes),
        _ => None,
    };
    driver.abort();
    Ok(Facts { info, marker, ahead_us: there.cast_signed() - here.cast_signed() })
}

fn time_of(reply: &Wire) -> Option<u64> {
    let Wire::Array(parts) = reply else { return None };
    let number = |part: &Wire| match part {
        Wire::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    let [seconds, micros] = parts.as_slice() else { return None };
    Some(number(seconds)?.saturating_mul(1_000_000).saturating_add(number(micros)?))
}

fn not_examined(error: &StoreError) -> Finding {
    let remedy = match error.kind() {
        StoreErrorKind::Unreachable | StoreErrorKind::Timeout | StoreErrorKind::Disconnected => {
            "start it again; to replace it, give the new one the same address"
        }
        kind => remedy(kind).unwrap_or("see the log of this server"),
    };
    Finding::fault("reach", error.to_string())
        .risk("while a majority of the servers is left, none: without one, every policy decides by on_store_error")
        .remedy(remedy)
}

/// What to do about a failure of this kind.
pub(crate) const fn remedy(kind: StoreErrorKind) -> Option<&'static str> {
    Some(match kind {
        StoreErrorKind::Denied => {
            "give the user of the URL the same password and rights on every server: docs/quorum.md#the-least-rights has \
             the ACL"
        }
        StoreErrorKind::Recovering => {
            "wait until the servers that have lost their data count again: the error says when; start those that do not \
             answer"
        }
        StoreErrorKind::OutOfMemory => "raise maxmemory on the servers that the error names",
        StoreErrorKind::ReadOnly => {
            "a replica cannot be a server of a quorum: REPLICAOF NO ONE, or name another server"
        }
        StoreErrorKind::Misconfigured => "free the disk of the servers that the error names",
        StoreErrorKind::MaxClients => "raise maxclients on the servers that the error names",
        StoreErrorKind::Busy => {
            "somebody's script runs for too long on a server: SCRIPT KILL ends it"
        }
        StoreErrorKind::Loading => "wait until the servers have loaded their data",
        StoreErrorKind::Unreachable
        | StoreErrorKind::Timeout
        | StoreErrorKind::NotSent
        | StoreErrorKind::Disconnected => "start servers until a majority answers",
        _ => return None,
    })
}

fn checks(facts: &Facts) -> Vec<Finding> {
    let member = standing(facts.marker.as_deref());
    let Some(info) = &facts.info else { return vec![member, not_inspected()] };
    let field = |name: &str| {
        let mut lines = info.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| *key == name).map_or("", |(_, value)| value.trim())
    };
    let version = if field("valkey_version").is_empty() {
        format!("Redis {}", field("redis_version"))
    } else {
        format!("Valkey {}", field("valkey_version"))
    };
    vec![
        Finding::ok("version", version),
        member,
        persistence(field("aof_enabled")),
        eviction(field("maxmemory"), field("maxmemory_policy")),
    ]
}

fn not_inspected() -> Finding {
    Finding::note("inspect", "this user may not run INFO: version, AOF and eviction are not known")
        .risk("none for checks")
        .remedy("run the doctor with a user that may, or add +info")
}

fn standing(marker: Option<&[u8]>) -> Finding {
    match marker.map(Standing::from_marker) {
        None => Finding::note("member", "it is new, or has lost its data: it has no marker yet")
            .risk("it does not count until the set is formed, or until what it knew no longer matters")
            .remedy("none: the first check that reaches all servers forms a new set"),
        Some(Ok(Standing::LostAt(at))) => {
            Finding::warning("member", format!("it has lost its data, noticed at {}", rfc3339(at)))
                .risk(format!(
                    "it counts for a policy again when the longest window of that policy has passed since then, and \
                     {} s; until then the others have to serve without it",
                    written_life_max(Duration::ZERO).as_secs()
                ))
                .remedy(
                    "wait; `tidegate doctor -c FILE` says until when for each policy. Turn on AOF, so that it keeps its \
                     data in the next restart",
                )
        }
        Some(Ok(_)) => Finding::ok("member", "it counts"),
        Some(Err(error)) => Finding::fault("member", error.to_string())
            .risk("it does not count")
            .remedy("use another key_prefix, or remove the key that ends in :q:since on every server at once"),
    }
}

fn persistence(aof_enabled: &str) -> Finding {
    if aof_enabled == "1" {
        return Finding::ok("persistence", "AOF is on");
    }
    Finding::warning("persistence", "AOF is off: a restart loses its data")
        .risk("after a restart it stays out for the longest window of each policy")
        .remedy("CONFIG SET appendonly yes, and appendfsync always where a crash of the machine must not count")
}

fn eviction(max_memory: &str, policy: &str) -> Finding {
    if max_memory == "0" || policy == "noeviction" || policy.is_empty() {
        return Finding::ok("eviction", "it evicts nothing");
    }
    Finding::fault("eviction", format!("it evicts keys when its memory is full ({policy})"))
        .risk("what it has confirmed may be forgotten without a trace")
        .remedy("CONFIG SET maxmemory-policy noeviction, or a Redis of its own")
}

fn majority_of(reached: usize, total: usize) -> Finding {
    let seen = format!("{reached} of {total} servers answer");
    if reached >= majority(total) {
        return Finding::ok("majority", seen);
    }
    Finding::fault("majority", seen)
        .risk("every policy decides by on_store_error")
        .remedy(format!("start servers until {} answer", majority(total)))
}

fn clock_difference(ahead_us: &[i64]) -> Finding {
    let ends = ahead_us.iter().max().zip(ahead_us.iter().min());
    let difference = ends.map_or(0, |(last, first)| last.abs_diff(*first));
    let seen = format!("the clocks of the servers differ by {} ms", difference.div_ceil(1000));
    if Duration::from_micros(difference) <= CLOCKS_DIFFER_MAX {
        return Finding::ok("clocks", seen);
    }
    Finding::warning("clocks", seen)
        .risk("a key may be refilled by that much early, once; and later than it should be")
        .remedy("run NTP on every server")
}

#[cfg(test)]
mod tests {
    use tidegate::driver::Severity;

    use super::*;

    #[test]
    fn each_fault_is_found_and_nothing_else() {
        let healthy = "redis_version:7.0.15\r\naof_enabled:1\r\nmaxmemory:0\r\n";
        let found = |info: &str, marker: Option<&[u8]>| -> Vec<&str> {
            let marker = marker.map(<[u8]>::to_vec);
            let facts = Facts { info: Some(info.to_owned()), marker, ahead_us: 0 };
            let bad = checks(&facts).into_iter().filter(|it| it.severity != Severity::Ok);
            bad.map(|finding| finding.check).collect()
        };
        assert_eq!(found(healthy, Some(b"n:1")), [""; 0]);
        assert_eq!(found(healthy, None), ["member"]);
        assert_eq!(found(healthy, Some(b"r:1")), ["member"]);
        assert_eq!(found(healthy, Some(b"what")), ["member"]);
        assert_eq!(found("aof_enabled:0\r\nmaxmemory:0", Some(b"n:1")), ["persistence"]);
        let evicts = "aof_enabled:1\r\nmaxmemory:9\r\nmaxmemory_policy:allkeys-lru";
        assert_eq!(found(evicts, Some(b"n:1")), ["eviction"]);
        assert_eq!(majority_of(1, 3).severity, Severity::Fault);
        assert_eq!(clock_difference(&[-400_000, 200_000]).severity, Severity::Warning);
        assert_eq!(clock_difference(&[-200_000, 200_000]).severity, Severity::Ok);
    }
}
