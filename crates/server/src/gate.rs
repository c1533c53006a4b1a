//! What every door asks: the engine with everything that the configuration says, swapped whole on reload.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use axum::http::StatusCode;
use tidegate::{
    Answer, Check, CheckError, Engine, EngineBuilder, Key, LeaseError, Policy, PolicyView,
    Reservation, Source,
};

use crate::adaptive::{Follower, Prepared};
use crate::config::{Config, DoorRules};
use crate::dashboard::Dashboard;
use crate::doors::forward_auth::Found;
use crate::doors::http::Settings;
use crate::doors::proxy::Proxy;
use crate::doors::rls::Rls;
use crate::exposure::Exposure;
use crate::logs::Events;
use crate::metrics::{Metrics, UpstreamView};
use crate::observed::Observed;
use crate::urls::ByUrl;

/// What is in force now. A door takes it once per request, so that a request is answered by one configuration.
#[derive(Debug)]
pub(crate) struct Gate {
    current: ArcSwap<Snapshot>,
    metrics: Arc<Metrics>,
    events: Events,
    observed: Arc<Observed>,
    urls: ByUrl,
    dashboard: Dashboard,
    is_draining: AtomicBool,
}

/// One configuration, checked and built. It never changes.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) engine: Engine,
    /// What the HTTP doors go by besides the policies.
    pub(crate) http: Settings,
    /// What all doors go by.
    pub(crate) rules: DoorRules,
    /// What Envoy's descriptors mean.
    pub(crate) rls: Arc<Rls>,
    /// Where requests are passed on to, if they are.
    pub(crate) proxy: Option<Arc<Proxy>>,
    /// Lets limits follow the load. The same in every snapshot.
    pub(crate) follower: Arc<Follower>,
    /// The policies as they were written, for whoever tries them elsewhere than over the store.
    pub(crate) written: Arc<BTreeMap<String, Policy>>,
}

/// A configuration that is built and not yet in force. Dropped, it has changed nothing.
#[derive(Debug)]
pub(crate) struct Draft {
    next: Snapshot,
    prepared: Prepared,
    /// What is logged once it is in force.
    warnings: Vec<Warning>,
}

/// A line of the log about a configuration that was taken.
#[derive(Debug)]
enum Warning {
    Config(String),
    /// A policy runs without the leases that it asks for.
    NoLeases(String, LeaseError),
    /// A key has changed that is only read at the start.
    NeedsRestart(&'static str),
}

impl Draft {
    /// Builds what a configuration says, over the store of a builder, and changes nothing. Connections to what is behind
    /// the proxy of the one before stay open.
    pub(crate) fn build(
        config: &Config,
        builder: EngineBuilder,
        follower: Arc<Follower>,
        before: Option<&Snapshot>,
    ) -> Result<Self, String> {
        let (rules, rls) = (config.doors.clone(), config.rls.clone());
        let http = Settings::of(&rules)?;
        let of_envoy = rls.policies();
        for (name, _) in &of_envoy {
            // Or one would silently replace the other.
            if config.policies.contains_key(*name) {
                let name = crate::text::printable(name);
                return Err(format!(
                    "policy `{name}` is also the name of a rule of Envoy's configuration: rename one of them"
                ));
            }
        }
        let before = before.and_then(|before| before.proxy.as_ref());
        let proxy = match &config.proxy {
            Some(settings) => Some(Proxy::build(settings, before.map(|it| &**it))?.into()),
            // The door stays open until the next start, and needs somewhere to pass requests on to.
            None => before.cloned(),
        };
        let prepared = follower.prepare(&config.plans, &config.priorities)?;
        let mut written = config.policies.clone();
        written.extend(of_envoy.into_iter().map(|(name, policy)| (name.to_owned(), policy)));
        let builder = written.iter().fold(builder, |builder, (name, policy)| {
            builder.policy(name.clone(), prepared.adapt(name, policy.clone()))
        });
        let engine = builder.build().map_err(|error| error.to_string())?;
        let of_file =
            config.warnings.iter().map(|warning| Warning::Config(warning.message.clone()));
        let without_leases = engine.policies().filter_map(|policy| {
            Some(Warning::NoLeases(policy.name().to_owned(), policy.lease_problem()?))
        });
        let warnings = of_file.chain(without_leases).collect();
        let written = Arc::new(written);
        let next = Snapshot { engine, http, rules, rls, proxy, follower, written };
        Ok(Self { next, prepared, warnings })
    }

    /// Refuses to take the token away from a door that others can reach: no server would start so.
    pub(crate) fn check(&self, exposed: Option<&Exposure>) -> Result<(), String> {
        exposed.map_or(Ok(()), |door| door.allow(self.next.http.admin.has_token()))
    }

    /// Has the log say, once this is in force, which keys wait for a restart.
    pub(crate) fn needs_restart(&mut self, keys: impl Iterator<Item = &'static str>) {
        self.warnings.extend(keys.map(Warning::NeedsRestart));
    }

    /// What will be in force.
    #[cfg(test)]
    pub(crate) fn into_snapshot(self) -> Snapshot {
        self.next
    }
}

impl Warning {
    fn log(&self) {
        match self {
            Self::Config(message) => tracing::warn!("{message}"),
            Self::NoLeases(policy, problem) => {
                tracing::warn!(policy, %problem, "runs without leases");
            }
            Self::NeedsRestart(field) => {
                tracing::warn!(field, "has changed, and needs a restart to take effect");
            }
        }
    }
}

impl Snapshot {
    /// The policies that somebody has written: not those that only hold the counters of limits which come with a
    /// request.
    pub(crate) fn policies(&self) -> impl Iterator<Item = PolicyView<'_>> {
        let is_written = |policy: &PolicyView<'_>| !self.rls.rules.is_placeholder(policy.name());
        self.engine.policies().filter(is_written)
    }

    /// All that decisions are told under.
    fn told_names(&self) -> impl Iterator<Item = &str> {
        self.engine.policies().map(|policy| policy.name()).chain(self.rls.rules.blocking())
    }

    /// What a refusal is: 429, unless a limit that gives way to the load wants it told apart.
    pub(crate) fn refusal_status(&self, found: &Found<'_>) -> StatusCode {
        self.shed_status(found).unwrap_or(StatusCode::TOO_MANY_REQUESTS)
    }

    /// What such a limit wants it told with, while it gives way.
    pub(crate) fn shed_status(&self, found: &Found<'_>) -> Option<StatusCode> {
        self.follower.shed_status(found.policy, &found.key)
    }

    /// What is known of each upstream of the proxy.
    pub(crate) fn upstreams(&self) -> impl Iterator<Item = UpstreamView<'_>> {
        let all = self.proxy.iter().flat_map(|proxy| proxy.upstreams());
        all.map(|upstream| upstream.view())
    }
}

impl Gate {
    /// The first configuration.
    pub(crate) fn new(draft: Draft) -> Arc<Self> {
        let Draft { next, prepared, warnings } = draft;
        let metrics = Arc::<Metrics>::default();
        metrics.policies_are(next.told_names());
        let observed = next.follower.observed().clone();
        let (urls, dashboard) = (ByUrl::default(), Dashboard::default());
        dashboard.refusals().show_keys(next.rules.shows_keys);
        next.follower.follow(prepared);
        warnings.iter().for_each(Warning::log);
        let (current, is_draining) = (ArcSwap::from_pointee(next), AtomicBool::new(false));
        let events = Events::new();
        Arc::new(Self { current, metrics, events, observed, urls, dashboard, is_draining })
    }

    /// What is in force. Cheap; not to be held across a wait longer than one request.
    pub(crate) fn now(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Where doors tell what is worth a line.
    pub(crate) const fn events(&self) -> &Events {
        &self.events
    }

    /// What is known of the services behind.
    pub(crate) const fn observed(&self) -> &Arc<Observed> {
        &self.observed
    }

    /// What is known of every URL that requests were passed on for.
    pub(crate) const fn urls(&self) -> &ByUrl {
        &self.urls
    }

    /// What the page at `/` lives on.
    pub(crate) const fn dashboard(&self) -> &Dashboard {
        &self.dashboard
    }

    /// From now on whoever asks is told that the server is about to end. It serves on, but for those who only watch.
    pub(crate) fn drains(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.dashboard.feed().close();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Where doors tell what they did.
    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Counts a check that was to spend something, and tells of it where that is worth a line.
    pub(crate) fn tell(&self, check: &Check<'_>, answer: &Result<Answer<'_>, CheckError>) {
        #[cfg(feature = "otlp")]
        crate::telemetry::decided(check, answer);
        match answer {
            Ok(answer) => {
                self.metrics.decided(answer, 1);
                self.events.decided(check, answer);
                let decision = answer.decision;
                let is_refused = answer.shadow_denied || !decision.allowed();
                if is_refused && answer.source != Source::FailClosed {
                    self.refused(check, answer.policy, answer.binding, decision.retry_after_us());
                }
            }
            Err(error) => self.metrics.errored(check.policy, error, 1),
        }
    }

    /// Notes who was refused, by which limit of a policy.
    #[cold]
    fn refused(&self, check: &Check<'_>, policy: &str, limit: &str, retry_after_us: Option<u64>) {
        let hash = |key: Key<'_>| self.events.hash(key);
        self.dashboard.refusals().note(policy, (check.key, hash), limit, retry_after_us);
    }

    /// The same for a place in a queue.
    pub(crate) fn tell_reserved(
        &self,
        check: &Check<'_>,
        reservation: Result<Reservation, &CheckError>,
    ) {
        match reservation {
            Ok(place) => {
                self.metrics.reserved(check.policy, &place);
                self.events.reserved(check, &place);
                if place.shadow_denied() || !place.accepted() {
                    self.refused(check, check.policy, check.policy, place.retry_after_us());
                }
            }
            Err(error) => self.metrics.errored(check.policy, error, 1),
        }
    }

    /// Puts another configuration in force, which cannot fail. What the old engine has taken ahead goes back to the store.
    pub(crate) fn install(&self, draft: Draft) {
        let Draft { next, prepared, warnings } = draft;
        let next = Arc::new(next);
        let before = self.current.swap(next.clone());
        self.metrics.policies_are(next.told_names());
        self.dashboard.refusals().show_keys(next.rules.shows_keys);
        next.follower.follow(prepared);
        before.engine.release_leases();
        warnings.iter().for_each(Warning::log);
    }
}
