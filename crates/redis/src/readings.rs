//! What nodes tell each other through Redis: one hash per scope, read and written by `lua/adaptive.lua`.

use std::time::Duration;

use super::question::{Outcome, Question};
use super::{Client, Keys};
use tidegate::Reply;
use tidegate::{
    KeptState, ReadingReport, StateUpdate, StoreError, StoreErrorKind, TickReadings, Timestamp,
};

/// How long an answer may take at least: nobody waits for it but the next tick.
const PATIENCE: Duration = Duration::from_millis(250);

pub(super) fn tell(
    client: &Client,
    keys: &Keys,
    telling: &ReadingReport<'_>,
    now: Option<Timestamp>,
) -> Reply<'static, TickReadings, StoreError> {
    if let Err(error) = telling.validate() {
        return Reply::ready(Err(error));
    }
    let text = format!("tell {} {:x} {}", telling.tick_us(), telling.node, telling.reading);
    let question = Question::of_telling(keys.adaptive(telling.scope), text, now);
    let answer = client.submit(question, client.patient(PATIENCE).due());
    Reply::later(async {
        match answer?.await? {
            Outcome::TickReadings(told) => Ok(told),
            _ => Err(StoreError::new(StoreErrorKind::Protocol, "no readings in the reply")),
        }
    })
}

pub(super) fn keep(
    client: &Client,
    keys: &Keys,
    keeping: &StateUpdate<'_>,
    now: Option<Timestamp>,
) -> Reply<'static, bool, StoreError> {
    if let Err(error) = keeping.validate() {
        return Reply::ready(Err(error));
    }
    let before = keeping.before.map_or_else(|| "-".to_owned(), |tick| tick.to_string());
    let text = format!("keep {} {before} {}", keeping.tick, keeping.text);
    let question = Question::of_keeping(keys.adaptive(keeping.scope), text, now);
    let answer = client.submit(question, client.patient(PATIENCE).due());
    Reply::later(async {
        match answer?.await? {
            Outcome::Changed(kept) => Ok(kept),
            _ => Err(StoreError::new(StoreErrorKind::Protocol, "not whether it was kept")),
        }
    })
}

/// Reads `tick kept_tick count`, the kept text if there is one, and each reading as `node reading`; -1 for nothing.
pub(super) fn read_told(
    now: Timestamp,
    tick: i64,
    mut next: impl FnMut() -> Result<Result<i64, String>, StoreError>,
) -> Result<TickReadings, StoreError> {
    let nonsense = || StoreError::new(StoreErrorKind::Protocol, "readings that make no sense");
    let tick = u64::try_from(tick).map_err(|_| nonsense())?;
    let (Ok(kept), Ok(count)) = (next()?, next()?) else { return Err(nonsense()) };
    let kept = match u64::try_from(kept) {
        // A letter stands before it, so that no state is taken for a number.
        Ok(tick) => match next()? {
            Err(text) => Some(KeptState { tick, text: text.get(1..).unwrap_or("").to_owned() }),
            Ok(_) => return Err(nonsense()),
        },
        Err(_) => None,
    };
    let Ok(count) = usize::try_from(count) else {
        return Ok(TickReadings { now, tick, kept, readings: None });
    };
    let mut readings = Vec::new();
    for _ in 0..count {
        let Err(line) = next()? else { return Err(nonsense()) };
        // What this version cannot read, another one told.
        let told = line.split_once(' ');
        let told = told.and_then(|(node, it)| Some((u64::from_str_radix(node, 16).ok()?, it)));
        readings.extend(told.map(|(node, reading)| (node, reading.to_owned())));
    }
    readings.sort_unstable();
    Ok(TickReadings { now, tick, kept, readings: Some(readings) })
}
