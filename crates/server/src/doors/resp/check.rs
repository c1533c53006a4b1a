//! `TG.CHECK`, `TG.PEEK` and `TG.REFUND policy key [cost]`: the policies of the configuration.

use tidegate::{Answer, CheckError, Key, Op};

use super::command::{CommandContext, Next};
use super::out::{Out, escaped};
use super::throttle::{NUMBER_MAX, argument};
use crate::service::{Question, Unanswered};

pub(super) fn check(context: &mut CommandContext<'_, '_>) -> Next {
    run(context, Op::Take)
}

pub(super) fn peek(context: &mut CommandContext<'_, '_>) -> Next {
    run(context, Op::Peek)
}

pub(super) fn refund(context: &mut CommandContext<'_, '_>) -> Next {
    run(context, Op::Refund)
}

fn run(context: &mut CommandContext<'_, '_>, op: Op) -> Next {
    if let Err(problem) = ask(context, op) {
        context.out.error(&format!("ERR {problem}"));
    }
    Next::GoOn
}

#[inline]
fn ask(context: &mut CommandContext<'_, '_>, op: Op) -> Result<(), String> {
    let command = context.command;
    let name = std::str::from_utf8(command.argument(1))
        .map_err(|_| format!("no policy is called `{}`", escaped(command.argument(1))))?;
    let key = command.argument(2);
    if key.is_empty() {
        // Most likely somebody who is not known: they would all share one budget.
        return Err("key is empty: give who is asking".to_owned());
    }
    let cost = match command.len() {
        3 => 1,
        _ => argument(command.argument(3), "cost", 0..=NUMBER_MAX)?.unsigned_abs(),
    };
    let call = context.asking.call(op);
    let policy = call.policy(name, op).map_err(|why| detail(&why))?;
    context.answer(call.check(&Question::new(policy, Key::One(key), cost, op)));
    Ok(())
}

pub(super) fn write(out: &mut Out, answer: Result<Answer<'_>, Unanswered>) {
    match answer.and_then(Unanswered::unless_decided) {
        Ok(answer) => out.cell_reply(&answer.decision),
        Err(why) => out.error(&format!("ERR {}", detail(&why))),
    }
}

/// Why there is no answer.
#[cold]
fn detail(why: &Unanswered) -> String {
    match why {
        Unanswered::UnknownPolicy { name, closest } => {
            let hint =
                closest.as_ref().map(|it| format!("; did you mean `{}`?", escaped(it.as_bytes())));
            format!(
                "no policy is called `{}`{}",
                escaped(name.as_bytes()),
                hint.unwrap_or_default()
            )
        }
        // A failure must not look like a refusal.
        Unanswered::FailedClosed { .. } => format!("store unavailable: {}", why.detail()),
        Unanswered::StoreFailed(kind) => {
            format!("store unavailable ({}), and nothing can stand in for it", kind.as_str())
        }
        Unanswered::BadQuestion(CheckError::MissingKey { policy, key }) if key != "key" => format!(
            "policy `{}` counts by `{}`, and here is only one key: ask it over HTTP",
            escaped(policy.as_bytes()),
            escaped(key.as_bytes())
        ),
        Unanswered::BadQuestion(_) => why.detail(),
    }
}
