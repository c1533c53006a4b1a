//! Introspection: `INFO`, `COMMAND`, `CONFIG` and `ROLE`.

use tidegate::{Clock, SystemClock};

use super::command::{COMMANDS, CommandContext, CommandSpec, find};
use super::frame::Command;
use super::handshake::REDIS_VERSION;
use super::reply::{ReplyBuffer, escaped};

pub(super) fn info(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
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
}

fn is_everything(section: &[u8]) -> bool {
    ["all", "default", "everything"]
        .iter()
        .any(|word| section.eq_ignore_ascii_case(word.as_bytes()))
}

/// The fields that client libraries check when they connect, and those of tidegate.
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

/// The settings that redis-benchmark and some libraries read.
const SETTINGS: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];

pub(super) fn config(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    if !command.is(1, "GET") || command.len() < 3 {
        context.out.error(
            "ERR the configuration cannot be changed here: only CONFIG GET name … is supported",
        );
        return;
    }
    let asked =
        |name: &str| (2..command.len()).any(|at| command.is(at, name) || command.is(at, "*"));
    let found = || SETTINGS.iter().filter(|(name, _)| asked(name));
    context.out.map(context.session.protocol, found().count());
    for (name, value) in found() {
        context.out.bulk(name.as_bytes());
        context.out.bulk(value.as_bytes());
    }
}

pub(super) fn role(context: &mut CommandContext<'_, '_>, _: Command<'_>) {
    context.out.array(3);
    context.out.bulk(b"master");
    context.out.integer(0);
    context.out.array(0);
}

pub(super) fn command(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    let (out, protocol) = (&mut *context.out, context.session.protocol);
    if command.len() == 1 {
        out.array(COMMANDS.len());
        for spec in &COMMANDS {
            describe(out, spec);
        }
    } else if command.is(1, "COUNT") {
        out.integer(i64::try_from(COMMANDS.len()).unwrap_or(i64::MAX));
    } else if command.is(1, "LIST") {
        out.array(COMMANDS.len());
        for spec in &COMMANDS {
            out.bulk(spec.name.as_bytes());
        }
    } else if command.is(1, "DOCS") {
        out.map(protocol, 0);
    } else if command.is(1, "INFO") {
        out.array(command.len() - 2);
        for at in 2..command.len() {
            match find(command.argument(at)) {
                Some(spec) => describe(out, spec),
                None => out.null(protocol),
            }
        }
    } else {
        let what = escaped(command.argument(1));
        out.error(&format!("ERR unknown subcommand '{what}'"));
    }
}

/// Name, arity, flags, first key, last key, step; then four empty lists: ACL categories, tips, key specifications,
/// subcommands. Clients of Redis 7 expect all ten elements.
fn describe(out: &mut ReplyBuffer, spec: &CommandSpec) {
    let (least, most) = spec.arguments;
    let arity = i64::try_from(least).unwrap_or(i64::MAX);
    out.array(10);
    out.bulk(spec.name.as_bytes());
    out.integer(if least == most { arity } else { -arity });
    out.array(1);
    out.simple(if spec.key > 0 { "write" } else { "fast" });
    out.integer(spec.key);
    out.integer(spec.key);
    out.integer(spec.key.signum());
    for _ in 0..4 {
        out.array(0);
    }
}
