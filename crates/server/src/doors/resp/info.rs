//! What clients ask about the server: `INFO`, `COMMAND`, `CONFIG` and `ROLE`.

use tidegate::{Clock, SystemClock};

use super::command::{COMMANDS, CommandContext, Known, Next, find};
use super::greeting::REDIS_VERSION;
use super::out::{Out, escaped};

pub(super) fn info(context: &mut CommandContext<'_, '_>) -> Next {
    let command = context.command;
    let wanted = |section: &str| {
        let named = |index| command.is(index, section) || is_everything(command.argument(index));
        command.len() == 1 || (1..command.len()).any(named)
    };
    let mut text = String::new();
    for (section, lines) in sections(context) {
        if wanted(section) {
            text.extend(["# ", section, "\r\n", &lines, "\r\n"]);
        }
    }
    context.out.bulk(text.as_bytes());
    Next::GoOn
}

fn is_everything(section: &[u8]) -> bool {
    ["all", "default", "everything"]
        .iter()
        .any(|word| section.eq_ignore_ascii_case(word.as_bytes()))
}

/// What a client looks for before it trusts a server, and what this one really is.
fn sections(context: &CommandContext<'_, '_>) -> [(&'static str, String); 4] {
    let up_s = SystemClock.steady_us().saturating_sub(context.door.opened_us) / 1_000_000;
    let (pid, policies) = (std::process::id(), context.door.app.in_force().policies().count());
    let version = env!("CARGO_PKG_VERSION");
    [
        (
            "Server",
            format!(
                "redis_version:{REDIS_VERSION}\r\nredis_mode:standalone\r\nprocess_id:{pid}\r\n\
                 uptime_in_seconds:{up_s}\r\n"
            ),
        ),
        ("Persistence", "loading:0\r\n".to_owned()),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("Tidegate", format!("tidegate_version:{version}\r\npolicies:{policies}\r\n")),
    ]
}

/// What redis-benchmark and some libraries look at.
const SETTINGS: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];

pub(super) fn config(context: &mut CommandContext<'_, '_>) -> Next {
    let command = context.command;
    if !command.is(1, "GET") || command.len() < 3 {
        context.out.error(
            "ERR nothing is configured here but by the server's file: only CONFIG GET name …",
        );
        return Next::GoOn;
    }
    let asked =
        |name: &str| (2..command.len()).any(|at| command.is(at, name) || command.is(at, "*"));
    let found = || SETTINGS.iter().filter(|(name, _)| asked(name));
    context.out.map(context.session.protocol, found().count());
    for (name, value) in found() {
        context.out.bulk(name.as_bytes());
        context.out.bulk(value.as_bytes());
    }
    Next::GoOn
}

pub(super) fn role(context: &mut CommandContext<'_, '_>) -> Next {
    context.out.array(3);
    context.out.bulk(b"master");
    context.out.integer(0);
    context.out.array(0);
    Next::GoOn
}

pub(super) fn command(context: &mut CommandContext<'_, '_>) -> Next {
    let (command, protocol) = (context.command, context.session.protocol);
    let out = &mut *context.out;
    if command.len() == 1 {
        out.array(COMMANDS.len());
        for known in &COMMANDS {
            describe(out, known);
        }
    } else if command.is(1, "COUNT") {
        out.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX));
    } else if command.is(1, "LIST") {
        out.array(COMMANDS.len());
        for known in &COMMANDS {
            out.bulk(known.name.as_bytes());
        }
    } else if command.is(1, "DOCS") {
        out.map(protocol, 0);
    } else if command.is(1, "INFO") {
        out.array(command.len() - 2);
        for at in 2..command.len() {
            match find(command.argument(at)) {
                Some(known) => describe(out, known),
                None => out.null(protocol),
            }
        }
    } else {
        let what = escaped(command.argument(1));
        out.error(&format!("ERR unknown subcommand '{what}'"));
    }
    Next::GoOn
}

/// Name, arity, flags, where the first key, the last and the next one are; and, since there is nothing to say of them,
/// no categories, tips, specifications of keys and subcommands. Clients of the version that is told look for all ten.
fn describe(out: &mut Out, known: &Known) {
    let (least, most) = known.arguments;
    let arity = i64::try_from(least).unwrap_or(i64::MAX);
    out.array(10);
    out.bulk(known.name.as_bytes());
    out.integer(if least == most { arity } else { -arity });
    out.array(1);
    out.simple(if known.key > 0 { "write" } else { "fast" });
    out.integer(known.key);
    out.integer(known.key);
    out.integer(known.key.signum());
    for _ in 0..4 {
        out.array(0);
    }
}
