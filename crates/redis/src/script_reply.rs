//! What the script answers, and how its numbers are read.

use tidegate::{
    KeptState, ReserveReply, Source, StoreError, StoreErrorKind, StoreReply, StoredOverride,
    TickReadings,
};
use tidegate_core::{Decision, Grant, LeakyBucket, Reservation, Timestamp, Verdict};

use crate::{error, override_table};

/// What a reply has to hold.
#[derive(Clone, Debug)]
pub(crate) enum Expects {
    /// Per limit its ceiling, and whether it can grant permits; whether permits are granted, or a lease; and the permit to
    /// be released or renewed.
    Verdict {
        limits: Vec<(u64, bool)>,
        permits: bool,
        leases: bool,
        held: Option<u64>,
    },
    /// Per limit its ceiling.
    Each(Vec<u64>),
    Reservation(LeakyBucket),
    Nodes,
    Table,
    Sweep,
    Change,
    Readings,
}

/// A page of the table of overrides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TablePage {
    pub(crate) version: u64,
    pub(crate) entries: Vec<StoredOverride>,
    /// Where the next page begins, 0 after the last.
    pub(crate) next: u64,
}

/// What the script answered to one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ScriptReply {
    Decided(StoreReply),
    /// One answer per limit.
    Each(Vec<Decision>),
    Reserved(ReserveReply),
    /// How many nodes have announced themselves.
    Nodes(u32),
    /// A page of the table of overrides; `None` if it is the one that was named.
    Table(Option<TablePage>),
    /// Where the next page of a sweep begins, 0 after the last.
    Swept(u64),
    /// Whether the table was changed, or a state kept.
    Changed(bool),
    /// The readings of all nodes.
    Readings(TickReadings),
    /// A calendar quota needs the edges around this instant; nothing was written.
    Edges(Timestamp),
}

impl Expects {
    /// Reads the answer from numbers, and texts where there is no number. An outer error means that the numbers do not
    /// fit, and so neither will those after them.
    pub(crate) fn read(
        &self,
        numbers: &mut impl Iterator<Item = Result<i64, String>>,
        now: Timestamp,
    ) -> Result<Result<ScriptReply, StoreError>, StoreError> {
        let mut next = || numbers.next().ok_or_else(|| nonsense("too short"));
        let first = match next()? {
            Ok(number) => number,
            Err(text) if text == "EDGES" => return Ok(Ok(ScriptReply::Edges(now))),
            Err(text) => return Ok(Err(error::from_redis(&text))),
        };
        if matches!(*self, Expects::Table) {
            return table(first, next).map(|table| Ok(ScriptReply::Table(table)));
        }
        if matches!(*self, Expects::Readings) {
            return read_readings(now, first, next)
                .map(|readings| Ok(ScriptReply::Readings(readings)));
        }
        let mut next = || next()?.map_err(|_| nonsense("text among numbers"));
        Ok(Ok(match self {
            Expects::Table | Expects::Readings | Expects::Change => {
                ScriptReply::Changed(first != 0)
            }
            Expects::Sweep => ScriptReply::Swept(unsigned(first)?),
            Expects::Nodes => ScriptReply::Nodes(u32::try_from(first).unwrap_or(u32::MAX)),
            Expects::Each(ceilings) => {
                let mut decisions = Vec::with_capacity(ceilings.len());
                for ceiling in ceilings {
                    let remaining = if decisions.is_empty() { first } else { next()? };
                    decisions.push(decision(*ceiling, remaining, next()?, next()?)?);
                }
                ScriptReply::Each(decisions)
            }
            Expects::Reservation(shaper) => {
                let (delay, ticks, frac) = (next()?, next()?, next()?);
                ScriptReply::Reserved(reserve_reply(shaper, first, delay, ticks, frac)?)
            }
            Expects::Verdict { limits, permits: grants, leases, held } => {
                let several = limits.len() > 1;
                let binding = if several { unsigned(first)? } else { 0 };
                let remaining = if several { next()? } else { first };
                let (retry, reset) = (next()?, next()?);
                let binding = usize::try_from(binding).unwrap_or(usize::MAX);
                let (ceiling, _) = limits.get(binding).ok_or_else(|| nonsense("binding"))?;
                let decision = decision(*ceiling, remaining, retry, reset)?;
                let mut permits = Vec::new();
                for (index, _) in limits.iter().enumerate().filter(|(_, it)| *grants && it.1) {
                    let id = unsigned(next()?)?;
                    if id > 0 {
                        permits.push((index, id));
                    }
                }
                if let Some(id) = held
                    && next()? == 1
                {
                    permits.push((0, *id));
                }
                let verdict = Verdict { binding, decision };
                let grant =
                    if *leases { Some(grant(verdict, now, &mut next)?.into()) } else { None };
                ScriptReply::Decided(StoreReply { verdict, source: Source::Store, permits, grant })
            }
        }))
    }
}

macro_rules! into_variants {
    ($($name:ident: $variant:ident($value:ty), $missing:literal;)*) => {$(
        pub(crate) fn $name(self) -> Result<$value, StoreError> {
            match self {
                Self::$variant(value) => Ok(value),
                other => Err(other.unexpected($missing)),
            }
        }
    )*};
}

impl ScriptReply {
    into_variants! {
        into_decided: Decided(StoreReply), "no verdict in the reply";
        into_each: Each(Vec<Decision>), "no decisions in the reply";
        into_reserved: Reserved(ReserveReply), "no place in the reply";
        into_table: Table(Option<TablePage>), "no table in the reply";
        into_swept: Swept(u64), "no cursor in the reply";
        into_changed: Changed(bool), "no change in the reply";
        into_readings: Readings(TickReadings), "no readings in the reply";
    }

    /// The error for a reply of another kind than expected.
    fn unexpected(&self, missing: &'static str) -> StoreError {
        match self {
            Self::Edges(_) => StoreError::new(
                StoreErrorKind::Other,
                "the clock passed an edge twice within a check",
            ),
            _ => StoreError::new(StoreErrorKind::Protocol, missing),
        }
    }
}

fn decision(limit: u64, remaining: i64, retry: i64, reset: i64) -> Result<Decision, StoreError> {
    let (remaining, reset) = (unsigned(remaining)?, unsigned(reset)?);
    Ok(match retry {
        0 => Decision::admitted(limit, remaining, reset),
        -1 => Decision::refused(limit, remaining, None, reset),
        us => Decision::refused(limit, remaining, Some(unsigned(us)?), reset),
    })
}

fn table(
    version: i64,
    mut next: impl FnMut() -> Result<Result<i64, String>, StoreError>,
) -> Result<Option<TablePage>, StoreError> {
    let version = unsigned(version)?;
    let Ok(count) = next()? else { return Err(nonsense("a table without a length")) };
    if count < 0 {
        return Ok(None);
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let Err(line) = next()? else { return Err(nonsense("a number for an override")) };
        entries.extend(override_table::read_entry(&line));
    }
    let Ok(next) = next()? else { return Err(nonsense("a page without a cursor")) };
    Ok(Some(TablePage { version, entries, next: unsigned(next)? }))
}

fn grant(
    verdict: Verdict,
    now: Timestamp,
    mut next: impl FnMut() -> Result<i64, StoreError>,
) -> Result<Grant, StoreError> {
    let (units, ends_after, returnable) = (unsigned(next()?)?, next()?, next()?);
    let more_after = next()?;
    Ok(Grant {
        units,
        verdict,
        granted_at: (returnable == 1).then_some(now),
        ends_after_us: u64::try_from(ends_after).unwrap_or(u64::MAX),
        more_after_us: u64::try_from(more_after).unwrap_or(u64::MAX),
    })
}

fn reserve_reply(
    shaper: &LeakyBucket,
    retry: i64,
    delay: i64,
    ticks: i64,
    frac: i64,
) -> Result<ReserveReply, StoreError> {
    let reservation = match retry {
        0 => Reservation::at(unsigned(delay)?),
        -1 => Reservation::refused(None),
        us => Reservation::refused(Some(unsigned(us)?)),
    };
    let until =
        if ticks < 0 { None } else { Some(shaper.arrival(unsigned(ticks)?, unsigned(frac)?)) };
    Ok(ReserveReply { reservation, until })
}

fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| nonsense("a negative number"))
}

fn nonsense(what: &'static str) -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, format!("the script's reply makes no sense: {what}"))
}

/// Reads `tick kept_tick count`, the kept text if there is one, and each reading as `node reading`; -1 for nothing.
fn read_readings(
    now: Timestamp,
    tick: i64,
    mut next: impl FnMut() -> Result<Result<i64, String>, StoreError>,
) -> Result<TickReadings, StoreError> {
    let nonsense = || nonsense("readings");
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
        // A reading of another version, which this one cannot parse.
        let pair = line.split_once(' ');
        let pair = pair.and_then(|(node, it)| Some((u64::from_str_radix(node, 16).ok()?, it)));
        readings.extend(pair.map(|(node, reading)| (node, reading.to_owned())));
    }
    readings.sort_unstable();
    Ok(TickReadings { now, tick, kept, readings: Some(readings) })
}
