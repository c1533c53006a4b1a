//! The commands: a table of names, and who answers them.

use tidegate::{Answer, Reply};

use super::frame::Command;
use super::out::{Out, escaped};
use super::pipeline::LateAnswers;
use super::session::Session;
use super::{DoorState, check, greeting, info, throttle, transaction};
use crate::service::{Pipeline, Unanswered};

/// Whether the conversation goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    GoOn,
    Close,
    /// What was kept is to be answered first.
    Exec,
}

/// One command, and all that it takes to answer it.
pub(super) struct CommandContext<'t, 'e> {
    pub(super) command: Command<'t>,
    pub(super) door: &'t DoorState,
    pub(super) asking: &'t mut Pipeline<'e>,
    pub(super) session: &'t mut Session,
    pub(super) out: &'t mut Out,
    pub(super) late: &'t mut LateAnswers<'e>,
}

impl<'e> CommandContext<'_, 'e> {
    /// Writes an answer, now or in its place later.
    #[inline]
    pub(super) fn answer(&mut self, reply: Reply<'e, Answer<'e>, Unanswered>) {
        match reply.split() {
            Ok(answer) => check::write(self.out, answer),
            Err(later) => self.late.push((self.out.len(), later)),
        }
    }

    /// Refuses a command that could never run, and with it all that are kept together with it.
    #[cold]
    pub(super) fn reject(&mut self, problem: &str) {
        if let Some(transaction) = &mut self.session.transaction {
            transaction.spoil();
        }
        self.out.error(problem);
    }
}

/// A command that is known.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// What comes after the name.
    usage: &'static str,
    /// The fewest and the most arguments, the name included.
    pub(super) arguments: (usize, usize),
    /// Where the key is, 0 for none.
    pub(super) key: i64,
    run: fn(&mut CommandContext<'_, '_>) -> Next,
}

const fn known(
    name: &'static str,
    usage: &'static str,
    arguments: (usize, usize),
    key: i64,
    run: fn(&mut CommandContext<'_, '_>) -> Next,
) -> Known {
    Known { name, usage, arguments, key, run }
}

/// More than any command can have.
const ANY: usize = usize::MAX;

/// The commonest first: they are looked for in this order.
pub(super) const COMMANDS: [Known; 19] = [
    known("cl.throttle", "key max_burst count period [quantity]", (5, 6), 1, throttle::run),
    known("tg.check", "policy key [cost]", (3, 4), 2, check::check),
    known("tg.peek", "policy key [cost]", (3, 4), 2, check::peek),
    known("tg.refund", "policy key [cost]", (3, 4), 2, check::refund),
    known("multi", "", (1, 1), 0, transaction::multi),
    known("exec", "", (1, 1), 0, transaction::exec),
    known("discard", "", (1, 1), 0, transaction::discard),
    known("ping", "[message]", (1, 2), 0, greeting::ping),
    known("echo", "message", (2, 2), 0, greeting::echo),
    known("hello", "[2|3 [AUTH user password] [SETNAME name]]", (1, ANY), 0, greeting::hello),
    known("auth", "[user] password", (2, 3), 0, greeting::auth),
    known("select", "0", (2, 2), 0, greeting::select),
    known("client", "subcommand …", (2, ANY), 0, greeting::client),
    known("command", "[COUNT|DOCS|INFO|LIST …]", (1, ANY), 0, info::command),
    known("info", "[section …]", (1, ANY), 0, info::info),
    known("config", "GET name …", (2, ANY), 0, info::config),
    known("reset", "", (1, 1), 0, greeting::reset),
    known("quit", "", (1, ANY), 0, greeting::quit),
    known("role", "", (1, 1), 0, info::role),
];

/// What may be said before the password was.
const BEFORE_AUTH: [&str; 4] = ["hello", "auth", "quit", "reset"];

/// What is never kept for `EXEC`.
const AT_ONCE: [&str; 5] = ["multi", "exec", "discard", "reset", "quit"];

/// The command of this name.
pub(super) fn find(name: &[u8]) -> Option<&'static Known> {
    COMMANDS.iter().find(|known| known.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Answers a command, now or in its place later.
#[inline]
pub(super) fn answer(context: &mut CommandContext<'_, '_>) -> Next {
    let Some(known) = find(context.command.argument(0)) else { return unknown(context) };
    if !context.session.admitted && !BEFORE_AUTH.contains(&known.name) {
        context.out.error("NOAUTH Authentication required.");
        return Next::GoOn;
    }
    let (least, most) = known.arguments;
    if context.command.len() < least || context.command.len() > most {
        let Known { name, usage, .. } = known;
        context.reject(&format!(
            "ERR wrong number of arguments for '{name}' command: expected {name} {usage}"
        ));
        return Next::GoOn;
    }
    if context.session.transaction.is_some() && !AT_ONCE.contains(&known.name) {
        return transaction::keep(context);
    }
    (known.run)(context)
}

#[cold]
fn unknown(context: &mut CommandContext<'_, '_>) -> Next {
    let name = escaped(context.command.argument(0));
    context.reject(&if context.session.admitted {
        format!("ERR unknown command '{name}'; COMMAND LIST tells those there are")
    } else {
        "NOAUTH Authentication required.".to_owned()
    });
    Next::GoOn
}
