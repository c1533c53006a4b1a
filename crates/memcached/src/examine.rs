//! What can be wrong with memcached: `tidegate doctor`.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tidegate::driver::Finding;
use tokio::time::timeout;

use crate::protocol::Connection;
use crate::url::MemcachedUrl;

/// How long one server may take to answer.
const DEADLINE: Duration = Duration::from_secs(2);

/// The first version whose commands are used here as its tests know them.
const OLDEST_VERSION: (u32, u32, u32) = (1, 6, 10);

/// Connects to each server and looks.
pub(crate) async fn examine(url: &MemcachedUrl) -> Vec<Finding> {
    let mut findings = Vec::new();
    for server in &url.servers {
        let found = match timeout(DEADLINE, stats(server)).await {
            Ok(Ok(stats)) => checks(&stats),
            Ok(Err(error)) => vec![unreachable(&error.to_string())],
            Err(_) => vec![unreachable("no answer within 2 s")],
        };
        findings.extend(found.into_iter().map(|finding| finding.at(server)));
    }
    findings
}

async fn stats(server: &str) -> io::Result<BTreeMap<String, String>> {
    Connection::open(server).await?.stats().await
}

fn unreachable(why: &str) -> Finding {
    Finding::fault("reach", why)
        .risk("its keys are decided by on_store_error")
        .remedy("start it, or remove it from the URL on every node at once: that moves its keys")
}

fn checks(stats: &BTreeMap<String, String>) -> Vec<Finding> {
    let number = |name: &str| stats.get(name).and_then(|value| value.parse::<u64>().ok());
    vec![
        version(stats.get("version").map_or("", String::as_str)),
        evictions(number),
        memory(number),
        clients(number),
    ]
}

fn version(text: &str) -> Finding {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    let mut part = || parts.next().unwrap_or(0);
    let seen = format!("memcached {text}");
    if (part(), part(), part()) < OLDEST_VERSION {
        return Finding::fault("version", seen)
            .risk("it does not know the meta commands")
            .remedy("use memcached 1.6.10 or newer");
    }
    Finding::ok("version", format!("{seen}; tests run on 1.6.18"))
}

/// What was evicted was spent, and is no more.
fn evictions(number: impl Fn(&str) -> Option<u64>) -> Finding {
    let of_items = number("evictions").unwrap_or(0);
    if of_items == 0 {
        return Finding::ok("evictions", "none since it was started");
    }
    Finding::warning("evictions", format!("{of_items} items were evicted since it was started"))
        .risk("a key whose item is evicted starts from zero")
        .remedy("give it more memory (-m), or a memcached of its own")
}

fn memory(number: impl Fn(&str) -> Option<u64>) -> Finding {
    let (used, max) = (number("bytes").unwrap_or(0), number("limit_maxbytes").unwrap_or(0));
    let percent = (used * 100).checked_div(max).unwrap_or(0);
    let seen = format!("{percent} % of {} MiB are used", max >> 20);
    if percent < 80 {
        return Finding::ok("memory", seen);
    }
    Finding::warning("memory", seen)
        .risk("items will be evicted soon, and their keys start from zero")
        .remedy("give it more memory (-m)")
}

fn clients(number: impl Fn(&str) -> Option<u64>) -> Finding {
    let refused = number("listen_disabled_num").unwrap_or(0);
    let open = number("curr_connections").unwrap_or(0);
    if refused == 0 {
        return Finding::ok("connections", format!("{open} open, and none had to wait"));
    }
    Finding::warning("connections", format!("{refused} times it accepted no more connections"))
        .risk("new nodes decide by on_store_error meanwhile")
        .remedy("raise its limit (-c)")
}

#[cfg(test)]
mod tests {
    use tidegate::driver::Severity;

    use super::*;

    #[test]
    fn each_fault_is_found_and_nothing_else() {
        let healthy = [
            ("version", "1.6.18"),
            ("evictions", "0"),
            ("bytes", "1000"),
            ("limit_maxbytes", "67108864"),
            ("curr_connections", "3"),
            ("listen_disabled_num", "0"),
        ];
        let found = |name: &str, value: &str| -> Vec<&str> {
            let mut stats: BTreeMap<String, String> = healthy
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            stats.insert(name.to_owned(), value.to_owned());
            let bad = checks(&stats).into_iter().filter(|finding| finding.severity != Severity::Ok);
            bad.map(|finding| finding.check).collect()
        };
        assert_eq!(found("version", "1.6.18"), [""; 0]);
        for (name, value, check) in [
            ("version", "1.4.39", "version"),
            ("version", "", "version"),
            ("evictions", "5", "evictions"),
            ("bytes", "67000000", "memory"),
            ("listen_disabled_num", "2", "connections"),
        ] {
            assert_eq!(found(name, value), [check]);
        }
    }
}
