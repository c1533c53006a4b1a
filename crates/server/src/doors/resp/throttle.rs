//! `CL.THROTTLE key max_burst count period [quantity]`: the command of redis-cell. Each call brings its limit.

use std::ops::RangeInclusive;
use std::time::Duration;

use tidegate::{Decision, EXACT_MAX, Gcra, KeyedLimit, Limit, LimitError, Op};

use super::command::CommandContext;
use super::frame::Command;
use super::number;
use super::reply::escaped;

/// Limits cached per connection: a client uses a few, again and again.
const LIMITS_MAX: usize = 4;
/// The longest text of a limit that is kept: three numbers of twenty bytes, and what is between them.
const TEXT_BYTES_MAX: usize = 80;

/// The limits that a connection used last, by the bytes that its client sent for them: to compare these takes a tenth of
/// the time that it takes to read three numbers.
#[derive(Debug, Default)]
pub(super) struct LimitCache {
    recent: [Option<(Box<[u8]>, Limit)>; LIMITS_MAX],
    oldest: usize,
}

/// The arguments of a limit.
#[derive(Clone, Copy, Debug)]
struct Rate {
    max_burst: i64,
    count: i64,
    period_s: i64,
}

/// The largest integer that is exact as a JSON or Lua number.
#[expect(clippy::cast_possible_wrap, reason = "2^53")]
pub(super) const NUMBER_MAX: i64 = EXACT_MAX as i64;
/// In seconds, so that it is exact in microseconds: 285 years.
const PERIOD_S_MAX: i64 = NUMBER_MAX / 1_000_000;

pub(super) fn run(context: &mut CommandContext<'_, '_>, command: Command<'_>) {
    if let Err(problem) = ask(context, command) {
        context.out.error(&format!("ERR {problem}"));
    }
}

#[inline]
fn ask(context: &mut CommandContext<'_, '_>, command: Command<'_>) -> Result<(), String> {
    let quantity = match command.len() {
        5 => 1,
        _ => parse_argument(command.argument(5), "quantity", -NUMBER_MAX..=NUMBER_MAX)?,
    };
    let op = match quantity {
        ..0 => Op::Refund,
        0 => Op::Peek,
        1.. => Op::Take,
    };
    let limit = context.session.limits.find(command)?;
    let given = KeyedLimit { scope: &context.door.scope, key: command.argument(1), limit };
    let (call, out) = (context.service.call(op), &mut *context.out);
    let known = |decision: &Decision| out.cell_reply(decision);
    if let Err(reply) = call.check_given(&given, quantity.unsigned_abs(), op, known) {
        context.answer(reply);
    }
    Ok(())
}

impl LimitCache {
    #[inline]
    fn find(&mut self, command: Command<'_>) -> Result<&Limit, String> {
        let text = command.text(2..=4);
        let is_known = |one: &Option<(Box<[u8]>, _)>| one.as_ref().is_some_and(|it| *it.0 == *text);
        let index = match self.recent.iter().position(is_known) {
            Some(index) => index,
            None => self.add(text, Rate::read(command)?)?,
        };
        let found = self.recent.get(index).and_then(Option::as_ref);
        found.map(|(_, limit)| limit).ok_or_else(String::new)
    }

    #[cold]
    fn add(&mut self, text: &[u8], rate: Rate) -> Result<usize, String> {
        let limit = rate.limit().map_err(|error| rate.explain(&error))?;
        let index = self.oldest;
        // A longer one is read again each time.
        let text = if text.len() <= TEXT_BYTES_MAX { text } else { &[] };
        self.recent[index] = Some((text.into(), limit));
        self.oldest = (index + 1) % LIMITS_MAX;
        Ok(index)
    }
}

impl Rate {
    #[cold]
    fn read(command: Command<'_>) -> Result<Self, String> {
        Ok(Self {
            max_burst: parse_argument(command.argument(2), "max_burst", 0..=NUMBER_MAX - 1)?,
            count: parse_argument(command.argument(3), "count", 1..=NUMBER_MAX)?,
            period_s: parse_argument(command.argument(4), "period", 1..=PERIOD_S_MAX)?,
        })
    }

    fn limit(&self) -> Result<Limit, LimitError> {
        let [burst, count, period_s] =
            [self.max_burst + 1, self.count, self.period_s].map(i64::unsigned_abs);
        Gcra::new(count, Duration::from_secs(period_s), burst).map(Limit::Gcra)
    }

    /// The error in terms of the command's arguments.
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

/// Parses an argument and checks its range; the error names the argument.
#[inline]
pub(super) fn parse_argument(
    text: &[u8],
    name: &str,
    range: RangeInclusive<i64>,
) -> Result<i64, String> {
    match number::parse(text) {
        Some(number) if range.contains(&number) => Ok(number),
        _ => Err(bad_argument(text, name, &range)),
    }
}

#[cold]
fn bad_argument(text: &[u8], name: &str, range: &RangeInclusive<i64>) -> String {
    let (least, most) = (range.start(), range.end());
    format!("{name} `{}`: expected a whole number from {least} to {most}", escaped(text))
}

#[cfg(test)]
mod tests;
