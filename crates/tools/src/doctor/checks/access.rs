//! What the user may do, and who else may.

use super::{Facts, Finding};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    [rights(facts), exposure(facts)].into_iter().flatten().collect()
}

fn rights(facts: &Facts) -> Option<Finding> {
    let rights = facts.rights.as_ref()?;
    let prefix = &facts.prefix;
    if rights.missing.is_empty() && !rights.no_keys {
        return Some(Finding::ok("permissions", format!("all that scripts on {prefix}:* need")));
    }
    let mut seen = Vec::new();
    if !rights.missing.is_empty() {
        seen.push(format!("may not {}", rights.missing.join(", ").to_uppercase()));
    }
    if rights.no_keys {
        seen.push(format!("may not use keys {prefix}:*"));
    }
    let keys = if rights.no_keys { format!(" '~{prefix}:*'") } else { String::new() };
    let commands: Vec<_> = rights.missing.iter().map(|name| format!(" '+{name}'")).collect();
    let user = if facts.user.is_empty() { "default" } else { &facts.user };
    let finding = Finding::fault("permissions", format!("user {user} {}", seen.join(", and ")))
        .risk("checks that need them fail, and on_store_error decides")
        // Our own user will hardly be allowed to.
        .remedy(format!("as an administrator: ACL SETUSER {user}{keys}{}", commands.concat()));
    Some(finding)
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
        return Some(Finding::ok("exposure", format!("{password}; listens on {}", shown(bind))));
    }
    let seen = format!("no password; listens on {}", shown(bind));
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

fn shown(bind: &str) -> &str {
    if bind.trim().is_empty() { "every address" } else { bind }
}
