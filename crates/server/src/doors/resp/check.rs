//! `TG.CHECK`, `TG.PEEK` and `TG.REFUND policy key [cost]`: the policies of the configuration.

use tidegate::{Answer, Check, CheckError, Clock, Engine, Key, Op, SystemClock};

use super::command::{Next, Turn};
use super::five;
use super::out::{Out, shown};
use super::throttle::{NUMBER_MAX, argument};
use super::waiting::{ToTell, Waiting};
use crate::text::closest;

/// A burst has no time to look at the clock for each of its checks: so many tell how long one takes.
const TIMED_ONE_OF: u64 = 64;

pub(super) fn check(turn: &mut Turn<'_, '_>) -> Next {
    run(turn, Op::Take)
}

pub(super) fn peek(turn: &mut Turn<'_, '_>) -> Next {
    run(turn, Op::Peek)
}

pub(super) fn refund(turn: &mut Turn<'_, '_>) -> Next {
    run(turn, Op::Refund)
}

fn run(turn: &mut Turn<'_, '_>, op: Op) -> Next {
    if let Err(problem) = ask(turn, op) {
        turn.out.error(&format!("ERR {problem}"));
    }
    Next::GoOn
}

#[inline]
fn ask(turn: &mut Turn<'_, '_>, op: Op) -> Result<(), String> {
    let (command, engine) = (turn.command, turn.engine);
    let policy = std::str::from_utf8(command.argument(1))
        .map_err(|_| format!("no policy is called `{}`", shown(command.argument(1))))?;
    let key = command.argument(2);
    if key.is_empty() {
        // Most likely somebody who is not known: they would all share one budget.
        return Err("key is empty: give who is asking".to_owned());
    }
    let cost = match command.len() {
        3 => 1,
        _ => argument(command.argument(3), "cost", 0..=NUMBER_MAX)?.unsigned_abs(),
    };
    let check = Check { policy, key: Key::One(key), cost };
    turn.session.checks += u64::from(op == Op::Take);
    let since_us =
        turn.session.checks.is_multiple_of(TIMED_ONE_OF).then(|| SystemClock.steady_us());
    match engine.ask(&check, op).split() {
        Ok(answer) => {
            if op == Op::Take {
                turn.house.gate.tell(&check, &answer);
                if let Some(since_us) = since_us {
                    turn.house.gate.metrics().policy_took(policy, since_us);
                }
            }
            write(turn.out, engine, &answer);
        }
        Err(later) => {
            let told = (op == Op::Take).then(|| ToTell::of(policy, key, cost));
            turn.waiting.push((turn.out.len(), Waiting::Check(later, told)));
        }
    }
    Ok(())
}

pub(super) fn write(out: &mut Out, engine: &Engine, answer: &Result<Answer<'_>, CheckError>) {
    match answer {
        // A failure must not look like a refusal.
        Ok(answer) if answer.fails_closed() => out.error(&format!(
            "ERR store unavailable: policy `{}` admits nothing while its store fails",
            shown(answer.policy.as_bytes())
        )),
        Ok(answer) => five::write(out, &answer.decision),
        Err(error) => out.error(&format!("ERR {}", problem(engine, error))),
    }
}

/// Why there is no answer.
fn problem(engine: &Engine, error: &CheckError) -> String {
    match error {
        CheckError::UnknownPolicy(name) => {
            let meant = closest(name, engine.policies().map(|policy| policy.name()));
            let hint = meant.map(|meant| format!("; did you mean `{}`?", shown(meant.as_bytes())));
            format!("no policy is called `{}`{}", shown(name.as_bytes()), hint.unwrap_or_default())
        }
        // Only the kind: where the store is, is nothing to callers.
        CheckError::Store(error) => {
            format!(
                "store unavailable ({}), and nothing can stand in for it",
                error.kind().as_str()
            )
        }
        CheckError::MissingKey { policy, key } if key != "key" => format!(
            "policy `{}` counts by `{}`, and here is only one key: ask it over HTTP",
            shown(policy.as_bytes()),
            shown(key.as_bytes())
        ),
        other => crate::text::printable(&other.to_string()),
    }
}
