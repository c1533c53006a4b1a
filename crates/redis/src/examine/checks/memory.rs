//! Memory: what happens when it is full, and whether it soon is.

use super::{Check, Facts, Finding, bytes, counted};

/// In percent of maxmemory: time to look after it.
const FULL_SOON: u64 = 80;
/// … and when the next writes may be refused.
const FULL_NOW: u64 = 95;
/// Below this much memory the ratio only reflects what an empty server needs.
const RATIO_MATTERS_BYTES: u64 = 64 << 20;

pub(super) const CHECKS: &[Check] = &[maxmemory, policy, evicted, lazyfree, fragmented];

fn maxmemory(facts: &Facts) -> Option<Finding> {
    let (max, used) = (facts.setting_number("maxmemory")?, facts.info.number("used_memory")?);
    let system = facts.info.number("total_system_memory").filter(|system| *system > 0);
    let used_text = bytes(used);
    if max == 0 {
        let half = system.map_or_else(|| "1gb".to_owned(), |system| format!("{}mb", system >> 21));
        let finding = Finding::warning("maxmemory", format!("not set; {used_text} used"))
            .risk("it grows until the kernel kills it, and with it every counter")
            .remedy(facts.cli(&format!("CONFIG SET maxmemory {half}")));
        return Some(finding);
    }
    let percent = u128::from(used) * 100 / u128::from(max);
    let seen = format!("{used_text} of {} used, {percent} %", bytes(max));
    let more = facts.cli(&format!("CONFIG SET maxmemory {}mb", (max >> 19).max(1)));
    let refuses = facts.setting("maxmemory-policy") == Some("noeviction");
    Some(if percent >= u128::from(FULL_NOW) && refuses {
        Finding::fault("maxmemory", seen)
            .risk("writes are refused with OOM, now or soon, and on_store_error decides")
            .remedy(more)
    } else if percent >= u128::from(FULL_SOON) {
        let then = if refuses { "writes are refused with OOM" } else { "keys are evicted" };
        Finding::warning("maxmemory", seen).risk(format!("once it is full, {then}")).remedy(more)
    } else if system.is_some_and(|system| max > system) {
        Finding::warning("maxmemory", format!("{seen}; more than the machine has"))
            .risk("the kernel kills it before it is full, and every counter is gone")
            .remedy("set maxmemory to at most three quarters of the machine's memory")
    } else {
        Finding::ok("maxmemory", seen)
    })
}

fn policy(facts: &Facts) -> Option<Finding> {
    let policy = facts.setting("maxmemory-policy")?;
    if policy == "noeviction" {
        let finding = Finding::ok("eviction", "noeviction: nothing is forgotten")
            .risk("when memory is full, writes are refused with OOM and on_store_error decides");
        return Some(finding);
    }
    let seen = format!("maxmemory-policy is {policy}");
    if facts.setting_number("maxmemory") == Some(0) {
        return Some(Finding::note(
            "eviction",
            format!("{seen}, without effect while maxmemory is not set"),
        ));
    }
    let which = match policy {
        "volatile-ttl" => "the counters that would have expired first",
        "allkeys-random" | "volatile-random" => "any counter, also of a key that is blocked",
        // All of our keys have a time to live, and so are volatile.
        _ => "the counters used least, also of keys that are blocked for long",
    };
    let finding = Finding::warning("eviction", seen)
        .risk(format!("when memory is full it evicts {which}: those limits start afresh"))
        .remedy(facts.cli("CONFIG SET maxmemory-policy noeviction"));
    Some(finding)
}

fn evicted(facts: &Facts) -> Option<Finding> {
    let evicted = facts.info.number("evicted_keys").filter(|evicted| *evicted > 0)?;
    let finding = Finding::warning(
        "evicted",
        format!("{} evicted since it was started", counted(evicted, "key")),
    )
    .risk("limits whose counters were among them have started afresh")
    .remedy(facts.cli("CONFIG SET maxmemory-policy noeviction"));
    Some(finding)
}

fn lazyfree(facts: &Facts) -> Option<Finding> {
    let lazy = facts.config.text("lazyfree-lazy-eviction")?;
    let evicts = facts.setting("maxmemory-policy")? != "noeviction";
    Some(if evicts && lazy == "no" {
        Finding::note("lazyfree", "lazyfree-lazy-eviction is no, and keys may be evicted")
            .risk("evicting a big key of somebody else holds up every check meanwhile")
            .remedy(facts.cli("CONFIG SET lazyfree-lazy-eviction yes"))
    } else {
        let why = if evicts { "" } else { "; nothing is evicted" };
        Finding::ok("lazyfree", format!("lazyfree-lazy-eviction is {lazy}{why}"))
    })
}

fn fragmented(facts: &Facts) -> Option<Finding> {
    let used = facts.info.number("used_memory")?;
    let resident = facts.info.number("used_memory_rss")?;
    if used < RATIO_MATTERS_BYTES {
        return None;
    }
    let seen = format!("{} resident for {} used", bytes(resident), bytes(used));
    Some(if resident < used {
        Finding::warning("fragmentation", seen)
            .risk("a part of it is swapped out, and checks wait for a disk")
            .remedy("give the machine more memory, or set maxmemory below what it has")
    } else if resident / 3 > used / 2 {
        Finding::note("fragmentation", seen)
            .risk("more than a third of its memory is lost to gaps")
            .remedy(facts.cli("CONFIG SET activedefrag yes"))
    } else {
        Finding::ok("fragmentation", seen)
    })
}
