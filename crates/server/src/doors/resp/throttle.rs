//! `CL.THROTTLE key max_burst count period [quantity]`: redis-cell's one command. The limit comes with each call.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::{EXACT_MAX, Gcra, KeyedLimit, Limit, LimitError, Op};

use super::command::{CommandContext, Next};
use super::number;
use super::out::escaped;

/// How many limits a connection remembers: a client has a few, and asks for them again and again.
const REMEMBERED: usize = 4;

/// The limits that a connection asked for last, built once.
#[derive(Debug, Default)]
pub(super) struct Limits {
    recent: [Option<(Rate, Limit)>; REMEMBERED],
    /// The next to be replaced.
    oldest: usize,
}

/// A limit as it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rate {
    max_burst: i64,
    count: i64,
    period_s: i64,
}

/// The largest number that is exact everywhere.
#[expect(clippy::cast_possible_wrap, reason = "2^53")]
pub(super) const NUMBER_MAX: i64 = EXACT_MAX as i64;
/// The same in microseconds: 285 years.
const PERIOD_S_MAX: i64 = NUMBER_MAX / 1_000_000;

pub(super) fn run(context: &mut CommandContext<'_, '_>) -> Next {
    if let Err(problem) = ask(context) {
        context.out.error(&format!("ERR {problem}"));
    }
    Next::GoOn
}

#[inline]
fn ask(context: &mut CommandContext<'_, '_>) -> Result<(), String> {
    let command = context.command;
    let rate = Rate {
        max_burst: argument(command.argument(2), "max_burst", 0..=NUMBER_MAX - 1)?,
        count: argument(command.argument(3), "count", 1..=NUMBER_MAX)?,
        period_s: argument(command.argument(4), "period", 1..=PERIOD_S_MAX)?,
    };
    let quantity = match command.len() {
        5 => 1,
        _ => argument(command.argument(5), "quantity", -NUMBER_MAX..=NUMBER_MAX)?,
    };
    let op = match quantity {
        ..0 => Op::Refund,
        0 => Op::Peek,
        1.. => Op::Take,
    };
    let limit = context.session.limits.find(rate)?;
    let given = KeyedLimit { scope: &context.door.scope, key: command.argument(1), limit };
    let reply = context.asking.call(op).check_given(&given, quantity.unsigned_abs(), op);
    context.answer(reply);
    Ok(())
}

impl Limits {
    /// The limit of a rate.
    #[inline]
    fn find(&mut self, rate: Rate) -> Result<&Limit, String> {
        let known =
            self.recent.iter().position(|one| one.as_ref().is_some_and(|(of, _)| *of == rate));
        let index = match known {
            Some(index) => index,
            None => self.add(rate)?,
        };
        let found = self.recent.get(index).and_then(Option::as_ref);
        found.map(|(_, limit)| limit).ok_or_else(String::new)
    }

    #[cold]
    fn add(&mut self, rate: Rate) -> Result<usize, String> {
        let limit = rate.limit().map_err(|error| rate.explain(&error))?;
        let index = self.oldest;
        self.recent[index] = Some((rate, limit));
        self.oldest = (index + 1) % REMEMBERED;
        Ok(index)
    }
}

impl Rate {
    fn limit(&self) -> Result<Limit, LimitError> {
        let [burst, count, period_s] =
            [self.max_burst + 1, self.count, self.period_s].map(i64::unsigned_abs);
        Gcra::new(count, Duration::from_secs(period_s), burst).map(Limit::Gcra)
    }

    /// What is wrong, in the words of the command.
    fn explain(&self, error: &LimitError) -> String {
        let Self { max_burst, count, period_s } = self;
        match error {
            LimitError::BurstInexact { .. } => format!(
                "max_burst {max_burst} with count {count} and period {period_s} could not be exact: \
                 use a smaller max_burst, or a count that divides the period"
            ),
            other => other.to_string(),
        }
    }
}

/// A number within a range; otherwise what is wrong with the argument of this name.
#[inline]
pub(super) fn argument(text: &[u8], name: &str, range: RangeInclusive<i64>) -> Result<i64, String> {
    match number::whole(text) {
        Some(number) if range.contains(&number) => Ok(number),
        _ => Err(bad(text, name, &range)),
    }
}

#[cold]
fn bad(text: &[u8], name: &str, range: &RangeInclusive<i64>) -> String {
    let (least, most) = (range.start(), range.end());
    format!("{name} `{}`: expected a whole number from {least} to {most}", escaped(text))
}

#[cfg(test)]
mod tests;
