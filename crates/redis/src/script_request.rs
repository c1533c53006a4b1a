//! One request as the script reads it.

use std::fmt::Write;

use tidegate::store_kit::with_probe_request;
use tidegate::{
    Charge, KeyedLimit, MultiCharge, Op, OverrideChange, ReadingReport, ReserveRequest,
    StateUpdate, StoreRequest,
};
use tidegate_core::{Arrival, EXACT_MAX, Mode, Return, Timestamp};

use crate::key::{self, Keys};
use crate::override_table;
use crate::script_reply::Expects;

/// Which script is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScriptKind {
    /// The one that decides, which Redis is given with every connection.
    Check,
    /// The one that counts nodes. It is short and seldom called, and so sent by source each time.
    Nodes,
    /// The one that keeps overrides, by source too.
    Overrides,
    /// The one through which nodes share readings: once a second, by source too.
    Adaptive,
}

/// A request to a script: it borrows nothing.
#[derive(Clone, Debug)]
pub(crate) struct ScriptRequest {
    /// One per limit, all in one slot.
    pub(crate) keys: Vec<Vec<u8>>,
    /// `op mode cost limit …`: see `lua/check.lua`.
    pub(crate) text: String,
    /// The time of a replay; `None` for the store's own.
    pub(crate) now: Option<Timestamp>,
    /// Whether it charges, if admitted.
    pub(crate) charges: bool,
    /// Which script it is for.
    pub(crate) script: ScriptKind,
    pub(crate) expects: Expects,
    /// What it costs Redis, in checks of a plain limit.
    pub(crate) work: u64,
}

/// Writes requests: under which keys, and at whose time.
#[derive(Clone, Debug)]
pub(crate) struct Scripts {
    pub(crate) keys: Keys,
    /// Scripts run at the caller's time instead of Redis' own.
    pub(crate) replays: bool,
}

impl Scripts {
    /// With the edges of calendar quotas around the caller's time. Units of a lease come back around Redis' own time of
    /// the grant, to the window that paid for them: nobody waits for a reply that asks for the edges of another time.
    pub(crate) fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> ScriptRequest {
        let around = match request.op {
            Op::GiveBack(back) => back.granted_at,
            _ => now,
        };
        self.decide_around(request, around, now)
    }

    /// With the edges of calendar quotas around another time.
    pub(crate) fn decide_around(
        &self,
        request: &StoreRequest<'_>,
        around: Timestamp,
        now: Timestamp,
    ) -> ScriptRequest {
        let keys = self.keys.for_limits(request.limits);
        ScriptRequest::with_keys(request, keys, around, self.replay_time(now))
    }

    pub(crate) fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> ScriptRequest {
        let mut text = match charges.charge {
            Charge::IfAllAdmit => "each".to_owned(),
            Charge::Never => "look".to_owned(),
            Charge::Refused => "left".to_owned(),
        };
        for charge in charges.limits {
            text.push(':');
            push_cost(&mut text, charge.cost);
        }
        text.push_str(" all 0");
        let limits = || charges.limits.iter().map(|charge| &charge.keyed);
        for keyed in limits() {
            text.push(' ');
            keyed.limit.write_script(now, &mut text);
        }
        let expects = Expects::Each(limits().map(|keyed| keyed.limit.ceiling()).collect());
        let work = work_of(limits());
        let costs = charges.limits.iter().any(|charge| charge.cost > 0);
        let charges = costs && charges.charge == Charge::IfAllAdmit;
        let (keys, now) = (self.keys.for_limits(limits()), self.replay_time(now));
        ScriptRequest { keys, text, now, charges, script: ScriptKind::Check, expects, work }
    }

    pub(crate) fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> ScriptRequest {
        let mut text = match request.cancel {
            None => "reserve all ".to_owned(),
            Some(Arrival { ticks, frac, scale, tick_us }) => {
                format!("cancel:{ticks}:{frac}:{scale}:{tick_us} all ")
            }
        };
        push_cost(&mut text, request.cost);
        text.push(' ');
        request.shaper.write_script(&mut text);
        let keys = vec![self.keys.by_identifier(request.scope, request.key, 'a')];
        let (charges, now) = (request.cancel.is_none(), self.replay_time(now));
        let expects = Expects::Reservation(*request.shaper);
        ScriptRequest { keys, text, now, charges, script: ScriptKind::Check, expects, work: 1 }
    }

    /// Asks for a page of the table of overrides; for the first one only if its version is not the known one: see
    /// `lua/overrides.lua`.
    pub(crate) fn load_overrides(&self, known: u64, cursor: u64, now: Timestamp) -> ScriptRequest {
        self.override_table(format!("load {known} {cursor}"), now, Expects::Table)
    }

    /// Drops what has expired of a page of the table of overrides.
    pub(crate) fn sweep_overrides(&self, cursor: u64, now: Timestamp) -> ScriptRequest {
        self.override_table(format!("sweep {cursor}"), now, Expects::Sweep)
    }

    /// Changes the table of overrides.
    pub(crate) fn change_override(
        &self,
        change: &OverrideChange<'_>,
        now: Timestamp,
    ) -> ScriptRequest {
        self.override_table(override_table::change_text(change), now, Expects::Change)
    }

    fn override_table(&self, text: String, now: Timestamp, expects: Expects) -> ScriptRequest {
        let (key, now) = (self.keys.overrides(), self.replay_time(now));
        ScriptRequest::by_source(ScriptKind::Overrides, key, text, now, expects)
    }

    /// Reports a reading: see `lua/adaptive.lua`.
    pub(crate) fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> ScriptRequest {
        let text = format!("report {} {:x} {}", report.tick_us(), report.node, report.reading);
        self.adaptive(report.scope, text, now, Expects::Readings)
    }

    /// Keeps the state that follows from the readings.
    pub(crate) fn keep_state(&self, update: &StateUpdate<'_>, now: Timestamp) -> ScriptRequest {
        let before = update.before.map_or_else(|| "-".to_owned(), |tick| tick.to_string());
        let text = format!("keep {} {before} {}", update.tick, update.text);
        self.adaptive(update.scope, text, now, Expects::Change)
    }

    fn adaptive(
        &self,
        scope: &str,
        text: String,
        now: Timestamp,
        expects: Expects,
    ) -> ScriptRequest {
        let (key, now) = (self.keys.adaptive(scope), self.replay_time(now));
        ScriptRequest::by_source(ScriptKind::Adaptive, key, text, now, expects)
    }

    fn replay_time(&self, now: Timestamp) -> Option<Timestamp> {
        self.replays.then_some(now)
    }
}

impl ScriptRequest {
    /// A whole check in the slot of another request. Calendars have no part in it, and so no time.
    pub(crate) fn probe_beside(beside: &Self) -> Option<Self> {
        let key = key::probe(beside.keys.first()?);
        with_probe_request(|request| {
            Self::with_keys(request, vec![key], Timestamp::from_micros(0), None)
        })
    }

    /// `around` is the time for the edges of calendar quotas; `now` the time of a replay.
    fn with_keys(
        request: &StoreRequest<'_>,
        keys: Vec<Vec<u8>>,
        around: Timestamp,
        now: Option<Timestamp>,
    ) -> Self {
        let mut text = match request.op {
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
            Op::Renew { permit_id } => format!("renew:{permit_id}"),
        };
        text.push_str(if request.mode == Mode::All { " all " } else { " any " });
        let cost = match request.op {
            Op::Lease(wanted) => wanted.most,
            Op::GiveBack(back) => back.units,
            _ => request.cost,
        };
        push_cost(&mut text, cost);
        for keyed in request.limits {
            text.push(' ');
            keyed.limit.write_script(around, &mut text);
            if keyed.scope.factor() > 1 {
                // To a string nothing can fail.
                let _ = write!(text, "*{}", keyed.scope.factor());
            }
        }
        let limits =
            request.limits.iter().map(|it| (it.limit.ceiling(), it.limit.grants_permits()));
        let limits = limits.collect();
        let leases = matches!(request.op, Op::Lease(_));
        let held = match request.op {
            Op::Release { permit_id } | Op::Renew { permit_id } => Some(permit_id),
            _ => None,
        };
        let permits = request.op == Op::Take;
        let expects = Expects::Verdict { limits, permits, leases, held };
        let charges = leases || request.op == Op::Take && request.cost > 0;
        let work = work_of(request.limits);
        Self { keys, text, now, charges, script: ScriptKind::Check, expects, work }
    }

    /// Announces a node: see `lua/nodes.lua`.
    pub(crate) fn announcement(key: Vec<u8>, text: String) -> Self {
        Self::by_source(ScriptKind::Nodes, key, text, None, Expects::Nodes)
    }

    /// A request to one of the scripts that are sent by source, on one key.
    fn by_source(
        script: ScriptKind,
        key: Vec<u8>,
        text: String,
        now: Option<Timestamp>,
        expects: Expects,
    ) -> Self {
        Self { keys: vec![key], text, now, charges: false, script, expects, work: 1 }
    }

    /// Whether a cluster keeps all its keys on one node.
    pub(crate) fn is_in_one_slot(&self) -> bool {
        self.keys.iter().all(|key| key::slot(key) == self.slot())
    }

    /// The slot of its keys in a cluster.
    pub(crate) fn slot(&self) -> u16 {
        self.keys.first().map_or(0, |key| key::slot(key))
    }
}

fn work_of<'a>(limits: impl IntoIterator<Item = &'a KeyedLimit<'a>>) -> u64 {
    limits.into_iter().map(|keyed| keyed.limit.script_work()).sum()
}

/// Above 2^53 a cost is above every ceiling, and no number to a script.
fn push_cost(text: &mut String, cost: u64) {
    if cost > EXACT_MAX {
        text.push_str("inf");
    } else {
        text.push_str(&cost.to_string());
    }
}
