//! Our keys: those that never expire, those that are big, and how Redis packs them.

use super::{Check, Facts, Finding, bytes, counted};
use tidegate_core::text::printable;

/// Fewer than the permits of a usual concurrency limit.
const ZSET_LEAST: i64 = 64;
/// More, and each change moves kilobytes.
const ZSET_MOST: i64 = 1024;

pub(super) const CHECKS: &[Check] = &[without_ttl, big, sets, lists];

fn looked_at(facts: &Facts) -> Option<String> {
    let keys = facts.keys.as_ref()?;
    let (count, prefix) = (keys.looked_at, &facts.prefix);
    let all = if keys.all { "all" } else { "the first" };
    Some(format!("{all} {} {prefix}:*", counted(count, "key")))
}

fn without_ttl(facts: &Facts) -> Option<Finding> {
    let keys = facts.keys.as_ref()?;
    let looked_at = looked_at(facts)?;
    if keys.looked_at == 0 && keys.all {
        return Some(Finding::ok("ttl", format!("there are no keys {}:*", facts.prefix)));
    }
    if keys.without_ttl == 0 {
        return Some(Finding::ok("ttl", format!("none is without: {looked_at}")));
    }
    let (count, prefix) = (keys.without_ttl, &facts.prefix);
    let example = printable(&keys.example_without_ttl);
    let finding = Finding::warning(
        "ttl",
        format!("{count} without, of {looked_at}: {example}"),
    )
    .risk(
        "all keys of tidegate but its table of overrides expire, so somebody else writes under its prefix; they stay for ever",
    )
    .remedy(format!(
        "give tidegate a prefix of its own with key_prefix, not {prefix}, or delete them"
    ));
    Some(finding)
}

fn big(facts: &Facts) -> Option<Finding> {
    let keys = facts.keys.as_ref()?;
    if keys.looked_at == 0 {
        return None;
    }
    let looked_at = looked_at(facts)?;
    let size = bytes(keys.biggest_bytes);
    if keys.big == 0 {
        return Some(Finding::ok(
            "big-keys",
            format!("none in {looked_at}; the biggest has {size}"),
        ));
    }
    let name = printable(&keys.biggest);
    let seen = format!("{} in {looked_at}; the biggest has {size}: {name}", keys.big);
    let finding = Finding::note("big-keys", seen)
        .risk("a sliding log keeps an entry per admission, a concurrency limit one per place: memory, and slower checks")
        .remedy("take sliding-window or gcra for limits that are large: their state is a few bytes");
    Some(finding)
}

fn sets(facts: &Facts) -> Option<Finding> {
    let names = ["zset-max-listpack-entries", "zset-max-ziplist-entries"];
    let (name, entries) = facts.config.first_number(names)?;
    let seen = format!("{name} is {entries}");
    let remedy = || facts.cli(&format!("CONFIG SET {name} 128"));
    Some(if entries < ZSET_LEAST {
        Finding::note("zset-packing", seen)
            .risk("concurrency limits with more places take several times the memory")
            .remedy(remedy())
    } else if entries > ZSET_MOST {
        Finding::note("zset-packing", seen)
            .risk("each permit granted or released searches through that many entries")
            .remedy(remedy())
    } else {
        Finding::ok("zset-packing", seen)
    })
}

fn lists(facts: &Facts) -> Option<Finding> {
    let names = ["list-max-listpack-size", "list-max-ziplist-size"];
    let (name, size) = facts.config.first_number(names)?;
    let seen = format!("{name} is {size}");
    // Negative sizes are classes of bytes: -1 4 KiB to -5 64 KiB; others count entries.
    Some(if !(-3..=1024).contains(&size) {
        Finding::note("list-packing", seen)
            .risk("each change of a sliding window or log moves tens of kilobytes")
            .remedy(facts.cli(&format!("CONFIG SET {name} -2")))
    } else if (0..64).contains(&size) {
        Finding::note("list-packing", seen)
            .risk("sliding windows and logs fall apart into many small pieces: more memory")
            .remedy(facts.cli(&format!("CONFIG SET {name} -2")))
    } else {
        Finding::ok("list-packing", seen)
    })
}
