//! Permissions of the user, and access of others.

use super::{Check, Facts, Finding};

pub(super) const CHECKS: &[Check] = &[permissions, exposure];

/// Without them, checks that share a call are read one by one. See `lua/fast.lua`.
const FOR_SPEED: [&str; 2] = ["mget", "exists"];

fn permissions(facts: &Facts) -> Option<Finding> {
    let permissions = facts.permissions.as_ref()?;
    let prefix = &facts.prefix;
    if permissions.missing.is_empty() && !permissions.no_keys {
        return Some(Finding::ok("permissions", format!("all that scripts on {prefix}:* need")));
    }
    let mut seen = Vec::new();
    if !permissions.missing.is_empty() {
        seen.push(format!("may not {}", permissions.missing.join(", ").to_uppercase()));
    }
    if permissions.no_keys {
        seen.push(format!("may not use keys {prefix}:*"));
    }
    let keys = if permissions.no_keys { format!(" '~{prefix}:*'") } else { String::new() };
    let commands: Vec<_> = permissions.missing.iter().map(|name| format!(" '+{name}'")).collect();
    let user = if facts.user.is_empty() { "default" } else { &facts.user };
    let seen = format!("user {user} {}", seen.join(", and "));
    let is_only_slower =
        !permissions.no_keys && permissions.missing.iter().all(|name| FOR_SPEED.contains(name));
    let finding = if is_only_slower {
        Finding::warning("permissions", seen).risk(
            "checks that share a call cost Redis more, and each such call counts as an error in ACL LOG and INFO errorstats",
        )
    } else {
        Finding::fault("permissions", seen)
            .risk("checks that need them fail, and on_store_error decides")
    };
    // Our own user is rarely allowed to do this.
    let remedy = format!("as an administrator: ACL SETUSER {user}{keys}{}", commands.concat());
    Some(finding.remedy(remedy))
}

fn exposure(facts: &Facts) -> Option<Finding> {
    let password = if facts.anonymous { "no password" } else { "a password" };
    if facts.in_clear {
        let seen = format!("{password}, no TLS, over a network");
        let finding = Finding::note("exposure", seen)
            .risk("whoever can listen on the way reads keys and passwords")
            .remedy("use rediss://, unless the network between is trusted");
        return Some(finding);
    }
    let bind = facts.config.text("bind")?;
    if !facts.anonymous || !is_public(bind) {
        return Some(Finding::ok("exposure", format!("{password}; listens on {}", describe(bind))));
    }
    let seen = format!("no password; listens on {}", describe(bind));
    let remedy = facts.cli("ACL SETUSER default 'resetpass' '>A-LONG-PASSWORD'");
    Some(if facts.config.is("protected-mode", "no") {
        Finding::warning("exposure", format!("{seen}, protected mode off"))
            .risk("whoever reaches the port can forget limits, and run scripts of their own")
            .remedy(remedy)
    } else {
        Finding::note("exposure", format!("{seen}, protected mode on"))
            .risk("only this machine gets in for now, but anybody on it can forget limits")
            .remedy(remedy)
    })
}

/// Whether any of the addresses can be reached from elsewhere. None at all means every one.
fn is_public(bind: &str) -> bool {
    let is_local = |address: &str| {
        let address = address.trim_start_matches('-');
        address.starts_with("127.") || address == "::1" || address == "localhost"
    };
    bind.trim().is_empty() || !bind.split_whitespace().all(is_local)
}

fn describe(bind: &str) -> &str {
    if bind.trim().is_empty() { "every address" } else { bind }
}
