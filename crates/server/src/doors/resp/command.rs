//! The command table, and the checks that every command passes before it runs.

use std::sync::Arc;

use tidegate::{Decision, Reply};

use super::frame::Command;
use super::pipeline::{PendingChecks, StopReason};
use super::reply::{ReplyBuffer, escaped};
use super::session::Session;
use super::{DoorState, check, handshake, info, throttle, transaction};
use crate::net::ClientUsage;
use crate::service::{self, Unanswered};

/// What the handlers of commands need.
pub(super) struct CommandContext<'t, 'e> {
    pub(super) door: &'t DoorState,
    /// What the client holds, if it is counted.
    pub(super) client: Option<&'t Arc<ClientUsage>>,
    pub(super) service: &'t mut service::Pipeline<'e>,
    pub(super) session: &'t mut Session,
    pub(super) out: &'t mut ReplyBuffer,
    pub(super) pending: PendingChecks<'e>,
    /// Set by a command that no other may follow at once.
    pub(super) stop: Option<StopReason>,
}

impl<'e> CommandContext<'_, 'e> {
    /// Writes the reply now, or records where it belongs if the store answers later.
    #[inline]
    pub(super) fn answer(&mut self, reply: Reply<'e, Decision, Unanswered>) {
        match reply.split() {
            Ok(answer) => check::write(self.out, answer),
            Err(later) => self.pending.push((self.out.len(), later)),
        }
    }

    /// Replies with an error to a command that can never run, and aborts the transaction it is part of.
    #[cold]
    pub(super) fn reject(&mut self, problem: &str) {
        if let Some(transaction) = &mut self.session.transaction {
            transaction.abort();
        }
        self.out.error(problem);
    }
}

const fn widened([one, two, three, four]: [u8; 4]) -> [u8; 8] {
    [one, two, three, four, 0, 0, 0, 0]
}

type Handler = fn(&mut CommandContext<'_, '_>, Command<'_>);

pub(super) struct CommandSpec {
    pub(super) name: &'static str,
    ends: Option<NameEnds>,
    /// The arguments, as error messages show them.
    usage: &'static str,
    /// Minimum and maximum number of arguments, including the name.
    pub(super) arguments: (usize, usize),
    /// The position of the key, 0 for none.
    pub(super) key: i64,
    run: Handler,
}

const fn spec(
    name: &'static str,
    usage: &'static str,
    arguments: (usize, usize),
    key: i64,
    run: Handler,
) -> CommandSpec {
    let ends = NameEnds::of(name.as_bytes());
    CommandSpec { name, ends, usage, arguments, key, run }
}

/// The first and the last eight bytes of a name, which overlap in most; four of a short name. Compared at once, not byte
/// by byte: 40 instructions instead of 200.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NameEnds {
    first: [u8; 8],
    last: [u8; 8],
    len: usize,
}

impl NameEnds {
    /// `None` if no command has a name of this length.
    #[inline]
    const fn of(name: &[u8]) -> Option<Self> {
        let (mut first, mut last) = match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) if name.len() <= 16 => (*first, *last),
            (None, None) => match (name.first_chunk(), name.last_chunk()) {
                (Some(first), Some(last)) => (widened(*first), widened(*last)),
                _ => return None,
            },
            _ => return None,
        };
        first.make_ascii_lowercase();
        last.make_ascii_lowercase();
        Some(Self { first, last, len: name.len() })
    }
}

/// No upper limit other than that of the frame.
const ANY: usize = usize::MAX;

/// Searched in this order, so the most frequent commands come first.
pub(super) const COMMANDS: [CommandSpec; 19] = [
    spec("cl.throttle", "key max_burst count period [quantity]", (5, 6), 1, throttle::run),
    spec("tg.check", "policy key [cost]", (3, 4), 2, check::check),
    spec("tg.peek", "policy key [cost]", (3, 4), 2, check::peek),
    spec("tg.refund", "policy key [cost]", (3, 4), 2, check::refund),
    spec("multi", "", (1, 1), 0, transaction::multi),
    spec("exec", "", (1, 1), 0, transaction::exec),
    spec("discard", "", (1, 1), 0, transaction::discard),
    spec("ping", "[message]", (1, 2), 0, handshake::ping),
    spec("echo", "message", (2, 2), 0, handshake::echo),
    spec("hello", "[2|3 [AUTH user password] [SETNAME name]]", (1, ANY), 0, handshake::hello),
    spec("auth", "[user] password", (2, 3), 0, handshake::auth),
    spec("select", "0", (2, 2), 0, handshake::select),
    spec("client", "subcommand …", (2, ANY), 0, handshake::client),
    spec("command", "[COUNT|DOCS|INFO|LIST …]", (1, ANY), 0, info::command),
    spec("info", "[section …]", (1, ANY), 0, info::info),
    spec("config", "GET name …", (2, ANY), 0, info::config),
    spec("reset", "", (1, 1), 0, handshake::reset),
    spec("quit", "", (1, ANY), 0, handshake::quit),
    spec("role", "", (1, 1), 0, info::role),
];

/// Commands allowed before authentication.
const ALLOWED_BEFORE_AUTH: [&str; 4] = ["hello", "auth", "quit", "reset"];

/// Commands that run at once inside `MULTI`.
const NEVER_QUEUED: [&str; 5] = ["multi", "exec", "discard", "reset", "quit"];

#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    let ends = Some(NameEnds::of(name)?);
    COMMANDS.iter().find(|spec| spec.ends == ends)
}

/// Checks a command and runs it.
#[inline]
pub(super) fn answer(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    let Some(spec) = find(command.argument(0)) else { return unknown(context, command) };
    if !context.session.authenticated && !ALLOWED_BEFORE_AUTH.contains(&spec.name) {
        context.out.error("NOAUTH Authentication required.");
        return;
    }
    let (least, most) = spec.arguments;
    if command.len() < least || command.len() > most {
        let CommandSpec { name, usage, .. } = spec;
        context.reject(&format!(
            "ERR wrong number of arguments for '{name}' command: expected {name} {usage}"
        ));
        return;
    }
    if context.session.transaction.is_some() && !NEVER_QUEUED.contains(&spec.name) {
        return transaction::queue(context, command);
    }
    (spec.run)(context, command);
}

#[cold]
fn unknown(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    let name = escaped(command.argument(0));
    context.reject(&if context.session.authenticated {
        format!("ERR unknown command '{name}'; COMMAND LIST lists all commands")
    } else {
        "NOAUTH Authentication required.".to_owned()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_found_by_its_whole_name_in_any_case() {
        let found = |name: &str| find(name.as_bytes()).map(|spec| spec.name);
        for CommandSpec { name, .. } in &COMMANDS {
            assert_eq!(found(name), Some(*name));
            assert_eq!(found(&name.to_ascii_uppercase()), Some(*name));
            for at in 0..name.len() {
                let other = |byte: &str| [&name[..at], byte, &name[at + 1..]].concat();
                assert_eq!(found(&other("\0")), None, "{name}");
                assert_eq!(found(&other("")), None, "{name}");
                assert_eq!(found(&other("xx")), None, "{name}");
            }
        }
        for none in
            ["", "x", "get", "CL.THROTTL\u{f}", "cl.throttle.of.all.keys", "cl\u{e}throttle"]
        {
            assert_eq!(found(none), None, "{none:?}");
        }
    }
}
