//! Which server it is, and of which version.

use super::{Check, Facts, Finding};

/// Scripts may write after they have asked for the time: since 5.0 not the script but what it did is replicated.
const WORKS_SINCE: (u64, u64) = (5, 0);
/// Older ones get no security fixes any more.
const MAINTAINED_SINCE: (u64, u64) = (6, 2);
/// What the tests run against.
const TESTED_SINCE: (u64, u64) = (7, 0);

pub(super) const CHECKS: &[Check] = &[check];

fn check(facts: &Facts) -> Option<Finding> {
    let info = &facts.info;
    let text = info.text("redis_version")?;
    if info.is("redis_mode", "sentinel") {
        let finding = Finding::fault("version", format!("a sentinel of Redis {text}"))
            .risk("it knows where Redis is, but keeps nothing: no check works")
            .remedy("--store redis+sentinel://HOST:26379,…/NAME");
        return Some(finding);
    }
    if let Some(version) = info.text("valkey_version") {
        return Some(Finding::ok("version", format!("Valkey {version}")));
    }
    if let Some(version) = info.text("dragonfly_version") {
        let seen = format!("Dragonfly {version}, which speaks Redis' protocol");
        let risk = "tidegate is tested with Redis 7 and Valkey 9.1; the findings of `script` tell whether it works here";
        return Some(Finding::note("version", seen).risk(risk));
    }
    let seen = format!("Redis {text}");
    let version = version(text);
    Some(if version < WORKS_SINCE {
        Finding::fault("version", seen)
            .risk("scripts that ask for the time cannot write before Redis 5: no check works")
            .remedy("upgrade to Redis 7 or newer, or to Valkey")
    } else if version < MAINTAINED_SINCE {
        Finding::warning("version", seen)
            .risk("versions before 6.2 get no security fixes, and users who may EVAL can use the faults of its Lua")
            .remedy("upgrade to Redis 7 or newer, or to Valkey")
    } else if version < TESTED_SINCE {
        Finding::note("version", seen).risk("tidegate is tested with Redis 7 and newer")
    } else {
        Finding::ok("version", seen)
    })
}

/// Major and minor; 0 for what is no number.
fn version(text: &str) -> (u64, u64) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}
