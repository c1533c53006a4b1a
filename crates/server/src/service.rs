//! The one way from a question to an answer. A door decodes, makes a [`Call`], and encodes what that answers.
//!
//! A [`Call`] asks the engine, which applies the failure policy, and records how the question ended: counters, a line of
//! the log, a span, the table of refusals. What is in force is an [`InForce`], built as a [`Draft`] and swapped whole.

mod app;
mod call;
#[cfg(test)]
pub(crate) mod demo;
mod draft;
pub(crate) mod headers;
mod in_force;
mod pipeline;
mod settings;
mod unanswered;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tidegate::{Clock, Key, Source, SystemClock};

pub(crate) use self::app::AppState;
pub(crate) use self::call::{Call, Question, Record};
pub(crate) use self::draft::Draft;
pub(crate) use self::in_force::{Handle, InForce};
pub(crate) use self::pipeline::Pipeline;
pub(crate) use self::settings::{AdminToken, Settings};
pub(crate) use self::unanswered::Unanswered;
use crate::logs::Events;
use crate::metrics::{Counters, DoorName, Metrics, Outcome, Refusals, Status};

/// Answers questions by the configuration in force, and records how they ended.
#[derive(Debug)]
pub(crate) struct CheckService {
    in_force: ArcSwap<InForce>,
    metrics: Arc<Metrics>,
    events: Events,
    refusals: Refusals,
}

impl CheckService {
    /// Puts the first configuration in force.
    pub(crate) fn new(draft: Draft) -> Self {
        let Draft { next, prepared, warnings } = draft;
        let service = Self {
            in_force: ArcSwap::from_pointee(next),
            metrics: Arc::default(),
            events: Events::new(),
            refusals: Refusals::default(),
        };
        service.installed(&service.in_force());
        service.in_force().adaptive.install(prepared);
        warnings.iter().for_each(draft::Warning::log);
        service
    }

    /// Puts another configuration in force, which cannot fail. What the old engine has taken ahead goes back to the store.
    pub(crate) fn install(&self, draft: Draft) {
        let Draft { next, prepared, warnings } = draft;
        let next = Arc::new(next);
        let before = self.in_force.swap(next.clone());
        self.installed(&next);
        next.adaptive.install(prepared);
        before.engine.release_leases();
        warnings.iter().for_each(draft::Warning::log);
    }

    fn installed(&self, next: &InForce) {
        self.metrics.policies_are(next.counters());
        self.refusals.show_keys(next.rules.shows_keys);
    }

    /// What is in force. Cheap; not to be held across a wait longer than one request.
    pub(crate) fn in_force(&self) -> Guard<Arc<InForce>> {
        self.in_force.load()
    }

    /// A request that was read at a door. How long it took to arrive is its sender's doing.
    pub(crate) fn call<'s>(&'s self, in_force: &'s InForce, door: DoorName) -> Call<'s> {
        Call::begin(self, in_force, door)
    }

    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Who was refused, for the dashboard.
    pub(crate) const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// How many lines of the log were left out, by event.
    pub(crate) fn dropped_log_lines(&self) -> [(&'static str, u64); 2] {
        self.events.dropped_lines()
    }

    /// Records how a question ended: every question that spends comes through here.
    #[inline]
    fn record(&self, asked: &Asked<'_, '_>, outcome: &Outcome<'_>) {
        self.metrics.record(asked.counters, outcome);
        #[cfg(feature = "otlp")]
        crate::telemetry::record(asked.name, asked.cost, outcome);
        if outcome.is_notable() {
            self.record_notable(asked, outcome);
        }
    }

    /// A refusal, a stand-in or a failure.
    #[cold]
    fn record_notable(&self, asked: &Asked<'_, '_>, outcome: &Outcome<'_>) {
        self.events.record(asked.name, asked.key, outcome);
        let is_refused = matches!(outcome.status, Status::Denied | Status::ShadowDenied);
        if is_refused && outcome.source != Some(Source::FailClosed) {
            let hash = |key: Key<'_>| self.events.hash(key);
            let key = (asked.key, hash);
            self.refusals.note(asked.name, key, outcome.binding, outcome.retry_after_us);
        }
    }
}

/// What was asked, as it is recorded.
#[derive(Clone, Copy)]
struct Asked<'s, 'q> {
    name: &'s str,
    counters: &'s Counters,
    key: Key<'q>,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans tell it"))]
    cost: u64,
}

fn steady_us() -> u64 {
    SystemClock.steady_us()
}

#[cfg(test)]
mod tests;
