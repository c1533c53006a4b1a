//! The one way from a question to an answer. A door decodes, makes a [`Call`], and encodes its answer.
//!
//! A [`Call`] asks the engine, which applies the failure policy, and records the outcome: counters, log line, span, refused
//! keys. The configuration in force is an [`InForce`], built as a [`Draft`] and swapped whole.

mod app;
mod call;
#[cfg(test)]
pub(crate) mod demo;
mod draft;
pub(crate) mod headers;
mod in_force;
mod outage;
mod pipeline;
mod refusal_rules;
mod removed;
mod settings;
mod unanswered;

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use tidegate::{Clock, Key, Source, StoreErrorKind, SystemClock};

pub(crate) use self::app::AppState;
pub(crate) use self::call::{Call, Question, Record, SeenRequest};
pub(crate) use self::draft::Draft;
pub(crate) use self::in_force::{Handle, InForce};
pub(crate) use self::outage::{Fallbacks, Names, OutageView};
pub(crate) use self::pipeline::Pipeline;
pub(crate) use self::refusal_rules::{RefusalRules, Values};
pub(crate) use self::settings::{AdminToken, Settings};
pub(crate) use self::unanswered::{Unanswered, since_reload};
use crate::logs::{CheckLine, Events, KeyLabels, RequestLine, readable};
use crate::metrics::{Counters, Door, Metrics, Outcome, Refusals, Shed, Status};
use tidegate_request::{ClientIp, Peer};

/// Answers questions with the configuration in force, and records the outcomes.
#[derive(Debug)]
pub(crate) struct CheckService {
    in_force: ArcSwap<InForce>,
    metrics: Arc<Metrics>,
    events: Events,
    refusals: Refusals,
}

impl CheckService {
    /// Puts the first configuration in force.
    pub(crate) fn new(draft: Draft, labels: KeyLabels) -> Self {
        let Draft { next, prepared, warnings } = draft;
        let service = Self {
            in_force: ArcSwap::from_pointee(next),
            metrics: Arc::default(),
            events: Events::new(labels),
            refusals: Refusals::default(),
        };
        service.installed(&service.in_force());
        service.in_force().adaptive.install(prepared);
        warnings.iter().for_each(draft::Warning::log);
        service
    }

    /// Puts another configuration in force, which cannot fail. The leases of the old engine go back to the store.
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
        self.metrics.set_policies(next.counters());
        // A reload cannot switch `store.hash_keys` off.
        self.refusals.show_keys(next.rules.shows_keys && !self.events.labels().hides_all());
        self.events.labels().show_keys(next.rules.logs_keys);
    }

    /// The configuration in force. Cheap; must not be held for longer than one request.
    pub(crate) fn in_force(&self) -> Guard<Arc<InForce>> {
        self.in_force.load()
    }

    /// Begins a request that a door has read; the time to read it does not count.
    pub(crate) fn call<'s>(&'s self, in_force: &'s InForce, door: Door) -> Call<'s> {
        Call::begin(self, in_force, door)
    }

    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The refused keys, for the dashboard.
    pub(crate) const fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Counts and logs a wrong password or token.
    pub(crate) fn wrong_secret(&self, door: Door, peer: Peer) {
        self.metrics.auth_failed(door);
        self.events.wrong_secret(door, peer);
    }

    /// Counts and logs a connection that was closed because its client has too many.
    pub(crate) fn refused_connection(&self, door: Door, peer: Peer) {
        self.metrics.connection_refused(door);
        self.events.too_many_of_client(door, &peer.to_string(), "max_connections");
    }

    /// Counts and logs a request of the proxy that was refused because its client has too many.
    pub(crate) fn shed_client(&self, client: &str) {
        self.metrics.shed(Shed::PerClient);
        self.events.too_many_of_client(Door::Proxy, client, "max_requests");
    }

    /// Logs a request that came back to the proxy.
    pub(crate) fn came_back(&self, upstreams: &str) {
        self.events.came_back(upstreams);
    }

    /// Log lines that clients cause, and how keys are named in them.
    pub(crate) const fn events(&self) -> &Events {
        &self.events
    }

    /// Log lines that were not written, by event.
    pub(crate) fn dropped_log_lines(&self) -> [(&'static str, u64); 6] {
        self.events.dropped_lines()
    }

    /// Records an outcome. Every check that spends passes here.
    #[inline]
    fn record(&self, asked: &Asked<'_, '_>, outcome: &Outcome<'_>) {
        self.metrics.record(asked.counters, outcome);
        #[cfg(feature = "otlp")]
        crate::telemetry::record(asked.name, asked.cost, outcome);
        if outcome.is_notable() {
            self.record_notable(asked, outcome);
        }
    }

    /// A refusal, a decision without the store, or a failure.
    #[cold]
    fn record_notable(&self, asked: &Asked<'_, '_>, outcome: &Outcome<'_>) {
        let client = asked.request.map(|request| asked.client_name(request));
        let line = CheckLine {
            policy: asked.name,
            key: asked.key,
            request: asked.request.zip(client.as_deref()).map(|(request, client)| RequestLine {
                client,
                method: request.method,
                path: request.path,
                route: request.route,
                id: request.id,
            }),
        };
        let role = || self.metrics.role_of(asked.is_in_quorum);
        let counts =
            |kind: StoreErrorKind| kind.is_store_failure() || kind == StoreErrorKind::Recovering;
        if outcome.store_error.is_some_and(counts) {
            self.metrics.failing(role(), SystemClock.now());
        }
        self.events.record(&line, outcome, || self.metrics.store_cause(role()));
        let is_refused = matches!(outcome.status, Status::Denied | Status::ShadowDenied);
        if is_refused && outcome.source != Some(Source::FailClosed) {
            let labels = self.events.labels();
            let name = |is_shown| {
                if is_shown { readable(asked.key) } else { labels.hashed(asked.key) }
            };
            let key = |is_shown| (labels.hash(asked.key), name(is_shown));
            self.refusals.note(asked.name, key, outcome.binding, outcome.retry_after_us);
        }
    }
}

/// A question, as it is recorded.
#[derive(Clone, Copy)]
struct Asked<'s, 'q> {
    name: &'s str,
    counters: &'s Counters,
    key: Key<'q>,
    request: Option<SeenRequest<'s, 'q>>,
    client_ip: &'s ClientIp,
    is_in_quorum: bool,
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "only spans have it"))]
    cost: u64,
}

impl Asked<'_, '_> {
    /// The client as limits count it.
    fn client_name(&self, request: SeenRequest<'_, '_>) -> String {
        self.client_ip.name(request.client)
    }
}

fn steady_us() -> u64 {
    SystemClock.steady_us()
}

#[cfg(test)]
mod tests;
