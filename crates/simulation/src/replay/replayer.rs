//! The engine over a store in memory, with the clock of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate::{
    Check, CheckError, Engine, Key, ManualClock, MemoryStore, Op, Policy, PolicyKind, PolicyView,
    Timestamp,
};

use super::counts::ReplayCounts;
use super::plans::plan_of;
use super::record::{LineError, Record};
use tidegate_core::text::unknown_policy;
use tidegate_request::{
    AmbiguousRequest, ClientIp, ClientRequest, CountedBy, KeyParts, LoggedRequest, Routes,
};

pub struct Replayer {
    engine: Engine<ManualClock>,
    store: Arc<MemoryStore>,
    clock: ManualClock,
    routes: Routes,
    client_ip: ClientIp,
    /// Each is checked for every request, instead of that of its route.
    policies: Vec<String>,
    /// Replaces the key of the route or the policy.
    key: Option<CountedBy>,
    /// The header that names the plan of a request.
    plan_header: Option<String>,
}

/// The decision on one request.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Outcome<'a> {
    pub(super) policy: &'a str,
    pub(super) key: Vec<u8>,
    /// As if the policy were enforced.
    pub(super) denied: bool,
    /// Whether the policy is in shadow for this caller, who is then admitted.
    pub(super) in_shadow: bool,
    pub(super) lacks: Lacks,
}

/// What of a request its key or its route needs, and the log does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Lacks {
    pub(super) headers: bool,
    /// A verified token, or the body.
    pub(super) contents: bool,
}

/// What a route or a policy makes of a request.
enum Found<'a> {
    /// No route limits it.
    Unlimited,
    /// Its policy limits concurrency.
    NotReplayed,
    Decided(Outcome<'a>),
}

/// What becomes of a request, limited or not.
#[derive(Default)]
pub(super) struct Verdict<'a> {
    /// `None` if nothing limits it.
    pub(super) policy: Option<&'a str>,
    pub(super) client: String,
    /// Whether the caller would be refused.
    pub(super) refused: bool,
    /// Whether a policy in shadow would have refused it.
    pub(super) shadow_denied: bool,
    pub(super) not_replayed: bool,
    pub(super) lacks: Lacks,
}

pub struct ReplaySettings<'a> {
    pub policies: &'a BTreeMap<String, Policy>,
    /// Counts the requests; its cap bounds what a log can take.
    pub store: MemoryStore,
    pub client_ip: ClientIp,
    pub routes: Routes,
    /// Each is checked for every request, instead of that of its route.
    pub asked: Vec<String>,
    /// Replaces the key of the route or the policy.
    pub key: Option<KeyParts>,
}

impl Replayer {
    /// The error is for people.
    pub fn new(settings: ReplaySettings<'_>) -> Result<Self, String> {
        let ReplaySettings { policies, store, client_ip, routes, asked, key } = settings;
        let clock = ManualClock::default();
        let store = Arc::new(store);
        let builder = Engine::builder().clock(clock.clone()).store(store.clone());
        let add = |builder: tidegate::EngineBuilder<_>, (name, policy): (&String, &Policy)| {
            builder.policy(name.clone(), policy.clone())
        };
        let engine = policies.iter().fold(builder, add).build();
        let engine = engine.map_err(|error| error.to_string())?;
        for policy in &asked {
            if delays(&engine, policy) {
                continue;
            }
            let by = routes.key_of_policy(policy).filter(|_| key.is_none());
            let names = by.map(|by| by.names().map(|name| (name, &b"anybody"[..])).collect());
            let names: Vec<_> = names.unwrap_or_default();
            let key = if names.is_empty() { Key::One(b"anybody") } else { Key::Named(&names) };
            let check = Check { policy, key, cost: 1 };
            let names = policies.keys().map(String::as_str);
            engine.validate(&check, Op::Take).map_err(|error| explain(&error, names))?;
        }
        if asked.is_empty() && routes.is_empty() {
            return Err("the configuration has no routes: say which `policy`".to_owned());
        }
        let key = key.map(CountedBy::One);
        Ok(Self {
            engine,
            store,
            clock,
            routes,
            client_ip,
            policies: asked,
            key,
            plan_header: None,
        })
    }

    /// Counts by plan as well, which this header of the log names.
    #[must_use]
    pub fn by_plan(mut self, header: &str) -> Self {
        self.plan_header = Some(header.to_ascii_lowercase());
        self
    }

    pub(super) fn plan_header(&self) -> Option<&str> {
        self.plan_header.as_deref()
    }

    /// Whether a key or the plan needs headers: reading them takes longer than the rest of a line.
    pub(super) fn reads_headers(&self) -> bool {
        let by_route = || self.routes.reads_headers();
        self.plan_header.is_some()
            || self.policies.is_empty() && by_route()
            || self.key.as_ref().map_or_else(by_route, CountedBy::reads_headers)
    }

    /// What a byte of a log may cost: each route and each alternative of a key may read the whole request, and each limit
    /// of the policy may read all its slots.
    pub fn work_per_byte(&self) -> usize {
        let matched = || self.routes.len() + self.routes.parts_matched();
        let routes = if self.policies.is_empty() { matched() } else { 0 };
        let own = self.key.as_ref().map(CountedBy::alternatives);
        1 + routes + own.unwrap_or_else(|| self.routes.alternatives_max()) + self.limits_work()
    }

    /// The work of the limits of the costliest policy that may be asked, beyond that of a plain limit.
    fn limits_work(&self) -> usize {
        let work = |view: PolicyView<'_>| view.members().map(|it| it.limit.script_work()).sum();
        let work = self.asked().map(work);
        let most: u64 =
            if self.policies.is_empty() { work.max().unwrap_or_default() } else { work.sum() };
        usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(1)
    }

    /// How many live counters the store had to evict.
    pub(super) fn evicted(&self) -> u64 {
        self.store.stats().given_up
    }

    /// The policies that may be asked.
    fn asked(&self) -> impl Iterator<Item = PolicyView<'_>> {
        let is_asked = |view: &PolicyView<'_>| {
            self.policies.is_empty() || self.policies.iter().any(|it| it == view.name())
        };
        self.engine.policies().filter(is_asked)
    }

    /// What limits whose burst is the whole limit admit at first, of the policies that were asked.
    pub(super) fn first_periods(&self, was_asked: impl Fn(&str) -> bool) -> Vec<String> {
        let said = |view: PolicyView<'_>| view.members().find_map(|it| it.limit.first_period());
        // The limit that a share divides is that of another policy.
        let has_own = |view: &PolicyView<'_>| view.share_status().is_none();
        let asked = self.asked().filter(|view| was_asked(view.name()));
        asked.filter(has_own).filter_map(said).collect()
    }

    /// Decides a request at its time, by its route or by each of the policies.
    pub(super) fn decide(
        &self,
        record: &Record<'_>,
        counts: &mut ReplayCounts,
    ) -> Result<(), LineError> {
        let seen = self.seen(record)?;
        let plan = self.plan_header().and_then(|header| plan_of(record, header));
        if self.policies.is_empty() {
            match self.found(&seen, None)? {
                Found::Decided(outcome) => counts.decided(record.at, outcome, plan.clone()),
                Found::NotReplayed => counts.not_replayed += 1,
                Found::Unlimited => counts.unlimited += 1,
            }
        }
        for policy in &self.policies {
            if let Found::Decided(outcome) = self.found(&seen, Some(policy))? {
                counts.decided(record.at, outcome, plan.clone());
            }
        }
        counts.rates.add(&seen.client_name(), record.at.us);
        Ok(())
    }

    /// What becomes of a request at its time, by its route or by the first of the policies.
    pub(super) fn verdict(&self, record: &Record<'_>) -> Result<Verdict<'_>, LineError> {
        let seen = self.seen(record)?;
        let client = seen.client_name();
        let verdict = Verdict { client, ..Verdict::default() };
        Ok(match self.found(&seen, self.policies.first().map(String::as_str))? {
            Found::Unlimited => verdict,
            Found::NotReplayed => Verdict { not_replayed: true, ..verdict },
            Found::Decided(Outcome { policy, denied, in_shadow, lacks, .. }) => Verdict {
                policy: Some(policy),
                refused: denied && !in_shadow,
                shadow_denied: denied && in_shadow,
                lacks,
                ..verdict
            },
        })
    }

    /// The request of a line, to whose time the clock is set.
    fn seen<'r>(&'r self, record: &'r Record<'_>) -> Result<ClientRequest<'r>, LineError> {
        let recorded = LoggedRequest {
            client: record.client,
            method: &record.method,
            host: &record.host,
            target: &record.target,
            headers: headers(record),
        };
        self.clock.set(Timestamp::from_micros(record.at.us));
        ClientRequest::logged(&self.client_ip, recorded)
            .map_err(|doubt| LineError::Request(doubt.to_string()))
    }

    fn found<'a>(
        &'a self,
        seen: &ClientRequest<'_>,
        policy: Option<&'a str>,
    ) -> Result<Found<'a>, LineError> {
        let ambiguous = |doubt: AmbiguousRequest| LineError::Request(doubt.to_string());
        let Some(found) = self.routes.find(seen, policy).map_err(ambiguous)? else {
            return Ok(Found::Unlimited);
        };
        let (by, key) = match &self.key {
            Some(by) => (by, by.key_for(seen, found.route).map_err(ambiguous)?),
            None => (found.by, found.key),
        };
        let named = key.named();
        let check = Check { policy: found.policy, key: key.key(&named), cost: found.cost };
        let (denied, in_shadow) = match self.denies(&check) {
            Ok(decided) => decided,
            Err(CheckError::NeedsAcquire(_)) => return Ok(Found::NotReplayed),
            Err(error) => return Err(LineError::Request(error.to_string())),
        };
        let lacks = self.lacks(seen, by, policy.is_none());
        let key = key.into_label();
        Ok(Found::Decided(Outcome { policy: found.policy, key, denied, in_shadow, lacks }))
    }

    fn lacks(&self, seen: &ClientRequest<'_>, by: &CountedBy, is_by_route: bool) -> Lacks {
        let routes = is_by_route.then_some(&self.routes);
        let needs_headers = routes.is_some_and(Routes::match_unlogged_headers);
        Lacks {
            // Logs have at most the agent and the referer; browsers send far more.
            headers: (needs_headers || by.reads_unlogged_headers()) && seen.headers.len() <= 2,
            // No key to verify a token with is read, and no log has bodies.
            contents: routes.is_some_and(Routes::match_tokens)
                || by.reads_tokens()
                || by.reads_body(),
        }
    }

    /// Whether a policy would deny a request if it were enforced, and whether it was in shadow when it did.
    fn denies(&self, check: &Check<'_>) -> Result<(bool, bool), CheckError> {
        let (refused, in_shadow) = if delays(&self.engine, check.policy) {
            let reservation = self.engine.reserve(check).now()?;
            (!reservation.accepted(), reservation.shadow_denied())
        } else {
            let answer = self.engine.ask(check, Op::Take).now()?;
            (!answer.decision.allowed(), answer.shadow_denied)
        };
        Ok((refused || in_shadow, in_shadow))
    }
}

/// Whether a policy delays instead of refusing.
fn delays(engine: &Engine<ManualClock>, policy: &str) -> bool {
    engine.policy(policy).is_ok_and(|policy| policy.kind() == PolicyKind::Shaper)
}

fn explain<'a>(error: &CheckError, known: impl Iterator<Item = &'a str>) -> String {
    match error {
        CheckError::UnknownPolicy(name) => unknown_policy(name, known),
        CheckError::NeedsAcquire(_) => {
            format!("{error}; a log does not say how long requests took")
        }
        CheckError::MissingKey { .. } => {
            format!("{error}; a line of a log has the key parts of its request only")
        }
        _ => error.to_string(),
    }
}

fn headers(record: &Record<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &record.headers {
        let name = HeaderName::try_from(&**name);
        // Invalid headers are left out.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::super::replay;
    use super::*;
    use crate::StopFlag;
    use tidegate::driver::StoreDrivers;
    use tidegate_config::Config;

    /// The notes on a log in which each client comes twice and may once a day, with a megabyte for the counters.
    fn notes(clients: u32) -> String {
        let text = "policies: { api: sliding-log 1/day }";
        let config = Config::parse(text, &|_| None, StoreDrivers::MEMORY).unwrap();
        let settings = ReplaySettings {
            policies: &config.policies,
            store: MemoryStore::with_max_bytes(0),
            client_ip: config.doors.client_ip.clone(),
            routes: config.doors.routes(),
            asked: vec!["api".to_owned()],
            key: None,
        };
        let replayer = Replayer::new(settings).unwrap();
        let line = |client: u32| {
            let client = std::net::Ipv4Addr::from(client);
            format!("{client} - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1\n")
        };
        let once: String = (0..clients).map(line).collect();
        let report = replay(
            &replayer,
            (once.clone() + &once).as_bytes(),
            1,
            &StopFlag::default(),
            |_, _| (),
        )
        .unwrap();
        assert_eq!(report.policies[0].denied < clients.into(), report.notes.len() > 1);
        report.notes.concat()
    }

    #[test]
    fn the_report_says_if_counters_were_evicted() {
        assert!(!notes(100).contains("forgotten"));
        assert!(notes(50_000).contains("counters were forgotten"));
    }
}
