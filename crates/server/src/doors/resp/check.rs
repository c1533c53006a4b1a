//! `TG.CHECK`, `TG.PEEK` and `TG.REFUND policy key [cost]`: checks of configured policies.

use tidegate::{CheckError, Decision, Key, Op};

use super::command::CommandContext;
use super::frame::Command;
use super::reply::{ReplyBuffer, escaped};
use super::throttle::{NUMBER_MAX, parse_argument};
use crate::service::{Question, Unanswered, since_reload};

pub(super) fn check(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    run(context, command, Op::Take);
}

pub(super) fn peek(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    run(context, command, Op::Peek);
}

pub(super) fn refund(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    run(context, command, Op::Refund);
}

fn run(context: &mut CommandContext<'_, '_>, command: Command<'_>, op: Op) {
    if let Err(problem) = ask(context, command, op) {
        context.out.error(&format!("ERR {problem}"));
    }
}

#[inline]
fn ask(context: &mut CommandContext<'_, '_>, command: Command<'_>, op: Op) -> Result<(), String> {
    let name = std::str::from_utf8(command.argument(1))
        .map_err(|_| format!("no policy is called `{}`", escaped(command.argument(1))))?;
    let key = command.argument(2);
    if key.is_empty() {
        // An empty key is most likely an unknown caller. All of them would share one budget.
        return Err("key is empty: give the name of the caller".to_owned());
    }
    let cost = match command.len() {
        3 => 1,
        _ => parse_argument(command.argument(3), "cost", 0..=NUMBER_MAX)?.unsigned_abs(),
    };
    let call = context.service.call(op);
    let policy = call.policy(name, op).map_err(|why| detail(&why))?;
    let reply = call.check(&Question::new(policy, Key::One(key), cost, op));
    context.answer(reply.then(|answer| Ok(Unanswered::unless_decided(answer?)?.decision)));
    Ok(())
}

#[inline]
pub(super) fn write(out: &mut ReplyBuffer, decision: Result<Decision, Unanswered>) {
    match decision {
        Ok(decision) => out.cell_reply(&decision),
        Err(why) => out.error(&format!("ERR {}", detail(&why))),
    }
}

/// The error text.
#[cold]
fn detail(why: &Unanswered) -> String {
    match why {
        Unanswered::UnknownPolicy { name, removed_at } => {
            let (name, removed) = (escaped(name.as_bytes()), since_reload(*removed_at));
            format!("no policy is called `{name}`{removed}")
        }
        // A failure must not look like a refusal.
        Unanswered::FailedClosed { .. } => format!("store unavailable: {}", why.detail()),
        Unanswered::StoreFailed(kind) => {
            format!("store unavailable ({}), and this call has no fallback", kind.as_str())
        }
        Unanswered::BadQuestion(CheckError::MissingKey { policy, key }) if key != "key" => format!(
            "policy `{}` counts by `{}`, but this command has only one key: use the HTTP API",
            escaped(policy.as_bytes()),
            escaped(key.as_bytes())
        ),
        Unanswered::BadQuestion(_) => why.detail(),
    }
}
