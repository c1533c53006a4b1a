//! What a restart forgets, and what writing it down costs.

use super::{Check, Facts, Finding, counted};

pub(super) const CHECKS: &[Check] = &[kept, writable, rewrites, delayed];

fn appends(facts: &Facts) -> Option<bool> {
    match facts.config.text("appendonly") {
        Some(value) => Some(value == "yes"),
        None => facts.info.number("aof_enabled").map(|enabled| enabled == 1),
    }
}

fn kept(facts: &Facts) -> Option<Finding> {
    if appends(facts)? {
        return Some(match facts.config.text("appendfsync") {
            Some("always") => {
                Finding::warning("persistence", "AOF, written to disk with every command")
                    .risk("every check waits for the disk")
                    .remedy(facts.cli("CONFIG SET appendfsync everysec"))
            }
            Some("no") => {
                Finding::note("persistence", "AOF, written to disk when the kernel likes")
                    .risk("a crash of the machine forgets about the last 30 s of every counter")
            }
            _ => Finding::ok("persistence", "AOF: a crash forgets at most about a second"),
        });
    }
    // Without CONFIG it is unknown.
    let save = facts.config.text("save")?.trim();
    Some(if save.is_empty() {
        Finding::note("persistence", "neither RDB nor AOF")
            .risk("a restart forgets every counter: each limit starts afresh, and a quota too")
            .remedy(facts.cli("CONFIG SET appendonly yes"))
    } else {
        Finding::note("persistence", format!("RDB only (save {save})"))
            .risk("a restart forgets what was counted since the last snapshot; rates recover, quotas do not")
            .remedy(facts.cli("CONFIG SET appendonly yes"))
    })
}

fn writable(facts: &Facts) -> Option<Finding> {
    let info = &facts.info;
    let stops = !facts.config.is("stop-writes-on-bgsave-error", "no");
    if info.is("loading", "1") {
        let seen = "still loading its data";
        return Some(Finding::fault("disk", seen).risk("every check fails until it is done"));
    }
    if info.is("aof_last_write_status", "err") {
        let finding = Finding::fault("disk", "the last write to the AOF failed")
            .risk("writes are refused with MISCONF, and on_store_error decides")
            .remedy("make room on its disk, and look into its log");
        return Some(finding);
    }
    if info.is("rdb_last_bgsave_status", "err") {
        let finding = if stops {
            Finding::fault("disk", "the last snapshot failed")
                .risk("writes are refused with MISCONF, and on_store_error decides")
        } else {
            Finding::warning("disk", "the last snapshot failed")
                .risk("a restart forgets everything since the one before")
        };
        return Some(finding.remedy("make room on its disk, and look into its log"));
    }
    info.text("rdb_last_bgsave_status").map(|_| Finding::ok("disk", "the last writes went well"))
}

fn rewrites(facts: &Facts) -> Option<Finding> {
    let skips = facts.config.text("no-appendfsync-on-rewrite")?;
    if !appends(facts)? || facts.config.is("appendfsync", "no") {
        return None;
    }
    Some(if skips == "yes" {
        Finding::note("aof-rewrite", "no-appendfsync-on-rewrite is yes")
            .risk("a crash during a rewrite forgets up to 30 s; in return checks do not wait for the disk")
    } else {
        Finding::note("aof-rewrite", "no-appendfsync-on-rewrite is no")
            .risk(
                "while the AOF is rewritten, checks may wait for the disk and miss their deadline",
            )
            .remedy(facts.cli("CONFIG SET no-appendfsync-on-rewrite yes"))
    })
}

fn delayed(facts: &Facts) -> Option<Finding> {
    let delayed = facts.info.number("aof_delayed_fsync").filter(|delayed| *delayed > 0)?;
    let finding = Finding::note(
        "aof-delayed",
        format!("{} had to wait for the disk", counted(delayed, "write")),
    )
    .risk("checks at that moment waited too")
    .remedy("a faster disk, or one that is not shared");
    Some(finding)
}
