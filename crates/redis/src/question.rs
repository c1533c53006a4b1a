//! One request as the script reads it, and its answer as the script writes it.

use tidegate_core::{
    Arrival, Decision, EXACT_MAX, Grant, LeakyBucket, Limit, Mode, Reservation, Return, Timestamp,
    Verdict,
};

use super::error;
use super::key::{self, Keys};
use super::script::Text;
use super::{overrides, readings};
use tidegate::store_kit::with_probe_request;
use tidegate::{
    Charge, KeyedLimit, MultiCharge, Op, OverrideTable, ReserveReply, ReserveRequest, Source,
    StoreError, StoreErrorKind, StoreReply, StoreRequest, TickReadings,
};

/// A request that waits for its turn: it borrows nothing.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// One per limit, all in one slot.
    pub(super) keys: Vec<Vec<u8>>,
    /// `op mode cost limit …`: see `lua/check.lua`.
    pub(super) text: String,
    /// The time of a replay; `None` for the store's own.
    pub(super) now: Option<Timestamp>,
    /// Whether it charges, if admitted.
    pub(super) charges: bool,
    /// Which script it is for.
    pub(super) script: Text,
    expects: Expects,
}

/// What the answer will be about.
#[derive(Clone, Debug)]
enum Expects {
    /// Per limit its ceiling, and whether it can grant permits; whether permits are granted, or a lease.
    Verdict {
        limits: Vec<(u64, bool)>,
        permits: bool,
        leases: bool,
    },
    /// Per limit its ceiling.
    Each(Vec<u64>),
    Reservation(LeakyBucket),
    Nodes,
    Table,
    Change,
    TickReadings,
}

/// What the script answered to one question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    StoreReply(StoreReply),
    /// One answer per limit.
    Each(Vec<Decision>),
    Reserved(ReserveReply),
    /// So many nodes have announced themselves.
    Nodes(u32),
    /// The table of overrides; `None` if it is the one that was named.
    Table(Option<OverrideTable>),
    /// Whether the table was changed, or a state kept.
    Changed(bool),
    /// What all nodes told.
    TickReadings(TickReadings),
    /// A calendar quota needs the edges around this instant; nothing was written.
    Edges(Timestamp),
}

/// The numbers of a reply, in order.
pub(super) trait Numbers {
    /// The next number, or the text that stands in its place.
    fn next(&mut self) -> Option<Result<i64, String>>;
}

impl Question {
    /// `around` is the asker's time, for the edges of calendar quotas; `now` the time of a replay.
    pub(super) fn of_ask(
        ask: &StoreRequest<'_>,
        keys: &Keys,
        around: Timestamp,
        now: Option<Timestamp>,
    ) -> Self {
        Self::with_keys(ask, keys.of_limits(ask.limits), around, now)
    }

    /// A whole check in the slot of another question. Calendars have no part in it, and so no time.
    pub(super) fn of_probe(beside: &Self) -> Option<Self> {
        let key = key::probe(beside.keys.first()?);
        with_probe_request(|ask| Self::with_keys(ask, vec![key], Timestamp::from_micros(0), None))
    }

    fn with_keys(
        ask: &StoreRequest<'_>,
        keys: Vec<Vec<u8>>,
        around: Timestamp,
        now: Option<Timestamp>,
    ) -> Self {
        let mut text = match ask.op {
            Op::Take => "take".to_owned(),
            Op::Peek => "peek".to_owned(),
            Op::Refund => "refund".to_owned(),
            Op::Reset => "reset".to_owned(),
            Op::Lease(wanted) => format!("lease:{}", wanted.least.min(EXACT_MAX)),
            Op::GiveBack(Return { granted_at, age, .. }) => {
                let age_us = u64::try_from(age.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX);
                format!("give:{}:{}", granted_at.as_micros(), age_us.min(EXACT_MAX))
            }
            Op::Release { permit_id } => format!("release:{permit_id}"),
        };
        text.push_str(if ask.mode == Mode::All { " all " } else { " any " });
        let cost = match ask.op {
            Op::Lease(wanted) => wanted.most,
            Op::GiveBack(back) => back.units,
            _ => ask.cost,
        };
        push_cost(&mut text, cost);
        for keyed in ask.limits {
            text.push(' ');
            keyed.limit.write_script(around, &mut text);
        }
        let grants = |limit: &Limit| matches!(limit, Limit::Concurrency(_));
        let limits = ask.limits.iter().map(|it| (it.limit.ceiling(), grants(it.limit))).collect();
        let leases = matches!(ask.op, Op::Lease(_));
        let expects = Expects::Verdict { limits, permits: ask.op == Op::Take, leases };
        let charges = leases || ask.op == Op::Take && ask.cost > 0;
        Self { keys, text, now, charges, script: Text::Check, expects }
    }

    /// `limits` are those of `takes`.
    pub(super) fn of_takes(
        takes: &MultiCharge<'_>,
        limits: &[KeyedLimit<'_>],
        keys: &Keys,
        around: Timestamp,
        now: Option<Timestamp>,
    ) -> Self {
        let mut text = match takes.charge {
            Charge::IfAllAdmit => "each".to_owned(),
            Charge::Never => "look".to_owned(),
            Charge::Refused => "left".to_owned(),
        };
        for take in takes.limits {
            text.push(':');
            push_cost(&mut text, take.cost);
        }
        text.push_str(" all 0");
        for keyed in limits {
            text.push(' ');
            keyed.limit.write_script(around, &mut text);
        }
        let expects = Expects::Each(limits.iter().map(|keyed| keyed.limit.ceiling()).collect());
        let costs = takes.limits.iter().any(|take| take.cost > 0);
        let charges = costs && takes.charge == Charge::IfAllAdmit;
        Self { keys: keys.of_limits(limits), text, now, charges, script: Text::Check, expects }
    }

    pub(super) fn of_turn(turn: &ReserveRequest<'_>, keys: &Keys, now: Option<Timestamp>) -> Self {
        let mut text = match turn.cancel {
            None => "reserve all ".to_owned(),
            Some(Arrival { ticks, frac, scale, tick_us }) => {
                format!("cancel:{ticks}:{frac}:{scale}:{tick_us} all ")
            }
        };
        push_cost(&mut text, turn.cost);
        text.push(' ');
        turn.shaper.write_script(&mut text);
        let keys = vec![keys.by_identifier(turn.scope, turn.key, 'a')];
        let charges = turn.cancel.is_none();
        let expects = Expects::Reservation(*turn.shaper);
        Self { keys, text, now, charges, script: Text::Check, expects }
    }

    /// Announces a node: see `lua/nodes.lua`.
    pub(super) fn of_announcement(key: Vec<u8>, text: String) -> Self {
        let (keys, expects) = (vec![key], Expects::Nodes);
        Self { keys, text, now: None, charges: false, script: Text::Nodes, expects }
    }

    /// Whether a cluster keeps all its keys on one node.
    pub(super) fn is_in_one_slot(&self) -> bool {
        self.keys.iter().all(|key| key::slot(key) == self.slot())
    }

    /// Asks for the table of overrides: see `lua/overrides.lua`.
    pub(super) fn of_table(key: Vec<u8>, text: String, now: Option<Timestamp>) -> Self {
        let (keys, expects) = (vec![key], Expects::Table);
        Self { keys, text, now, charges: false, script: Text::Overrides, expects }
    }

    /// Changes the table of overrides.
    pub(super) fn of_change(key: Vec<u8>, text: String, now: Option<Timestamp>) -> Self {
        Self { expects: Expects::Change, ..Self::of_table(key, text, now) }
    }

    /// Tells what was read: see `lua/adaptive.lua`.
    pub(super) fn of_telling(key: Vec<u8>, text: String, now: Option<Timestamp>) -> Self {
        let (keys, expects) = (vec![key], Expects::TickReadings);
        Self { keys, text, now, charges: false, script: Text::Adaptive, expects }
    }

    /// Keeps what came of it.
    pub(super) fn of_keeping(key: Vec<u8>, text: String, now: Option<Timestamp>) -> Self {
        Self { expects: Expects::Change, ..Self::of_telling(key, text, now) }
    }

    /// The slot of its keys in a cluster.
    pub(super) fn slot(&self) -> u16 {
        self.keys.first().map_or(0, |key| key::slot(key))
    }

    /// Reads the answer. An outer error means that the numbers do not fit the question, and so neither will those
    /// after them.
    pub(super) fn read(
        &self,
        numbers: &mut impl Numbers,
        now: Timestamp,
    ) -> Result<Result<Outcome, StoreError>, StoreError> {
        let mut next = || numbers.next().ok_or_else(|| nonsense("too short"));
        let first = match next()? {
            Ok(number) => number,
            Err(text) if text == "EDGES" => return Ok(Ok(Outcome::Edges(now))),
            Err(text) => return Ok(Err(error::from_redis(&text))),
        };
        if matches!(self.expects, Expects::Table) {
            return table(first, next).map(|table| Ok(Outcome::Table(table)));
        }
        if matches!(self.expects, Expects::TickReadings) {
            return readings::read_told(now, first, next)
                .map(|told| Ok(Outcome::TickReadings(told)));
        }
        let mut next = || next()?.map_err(|_| nonsense("text among numbers"));
        Ok(Ok(match &self.expects {
            Expects::Table | Expects::TickReadings | Expects::Change => {
                Outcome::Changed(first != 0)
            }
            Expects::Nodes => Outcome::Nodes(u32::try_from(first).unwrap_or(u32::MAX)),
            Expects::Each(ceilings) => {
                let mut decisions = Vec::with_capacity(ceilings.len());
                for ceiling in ceilings {
                    let remaining = if decisions.is_empty() { first } else { next()? };
                    decisions.push(decision(*ceiling, remaining, next()?, next()?)?);
                }
                Outcome::Each(decisions)
            }
            Expects::Reservation(shaper) => {
                let (delay, ticks, frac) = (next()?, next()?, next()?);
                Outcome::Reserved(place(shaper, first, delay, ticks, frac)?)
            }
            Expects::Verdict { limits, permits: grants, leases } => {
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
                let verdict = Verdict { binding, decision };
                let grant = if *leases { Some(grant(verdict, now, &mut next)?) } else { None };
                Outcome::StoreReply(StoreReply { verdict, source: Source::Store, permits, grant })
            }
        }))
    }
}

impl Outcome {
    /// Why this is no answer to what was asked.
    pub(super) fn unexpected(&self, missing: &'static str) -> StoreError {
        match self {
            Self::Edges(_) => StoreError::new(
                StoreErrorKind::Other,
                "the clock passed an edge twice within a check",
            ),
            _ => StoreError::new(StoreErrorKind::Protocol, missing),
        }
    }
}

/// Above 2^53 a cost is above every ceiling, and no number to a script.
fn push_cost(text: &mut String, cost: u64) {
    if cost > EXACT_MAX {
        text.push_str("inf");
    } else {
        text.push_str(&cost.to_string());
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
) -> Result<Option<OverrideTable>, StoreError> {
    let version = unsigned(version)?;
    let Ok(count) = next()? else { return Err(nonsense("a table without a length")) };
    if count < 0 {
        return Ok(None);
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let Err(line) = next()? else { return Err(nonsense("a number for an override")) };
        entries.extend(overrides::read_entry(&line));
    }
    Ok(Some(OverrideTable { version, entries }))
}

fn grant(
    verdict: Verdict,
    now: Timestamp,
    mut next: impl FnMut() -> Result<i64, StoreError>,
) -> Result<Grant, StoreError> {
    let (units, ends_after, returnable) = (unsigned(next()?)?, next()?, next()?);
    Ok(Grant {
        units,
        verdict,
        granted_at: (returnable == 1).then_some(now),
        ends_after_us: u64::try_from(ends_after).unwrap_or(u64::MAX),
    })
}

fn place(
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
