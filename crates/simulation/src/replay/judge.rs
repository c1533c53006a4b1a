//! What the policies would have said: the engine over a store in memory, on the time of the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use tidegate::{Check, CheckError, Engine, Key, ManualClock, MemoryStore, Op, Policy, Timestamp};

use super::record::{Record, Unread};
use tidegate_core::text::unknown_policy;
use tidegate_request::{ClientIp, CountedBy, KeyParts, Recorded, Routes, Seen};

pub struct Judge {
    engine: Engine<ManualClock>,
    store: Arc<MemoryStore>,
    clock: ManualClock,
    routes: Routes,
    client_ip: ClientIp,
    /// Asked for every request, instead of that of its route.
    policy: Option<String>,
    /// Counted by, instead of what the route or the policy says.
    key: Option<CountedBy>,
    /// Whether the policy delays instead of refusing.
    delays: bool,
}

/// What becomes of a request.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Ruling<'a> {
    pub(super) policy: &'a str,
    pub(super) key: Vec<u8>,
    pub(super) denied: bool,
    /// Whether the key is made of headers, and the log has none of them.
    pub(super) guessed: bool,
}

/// What is to be tried.
pub struct Trial<'a> {
    pub policies: &'a BTreeMap<String, Policy>,
    pub client_ip: ClientIp,
    pub routes: Routes,
    /// Asked for every request, instead of that of its route.
    pub policy: Option<String>,
    /// Counted by, instead of what the route or the policy says.
    pub key: Option<KeyParts>,
}

impl Judge {
    /// Says what cannot be tried, and why.
    pub fn new(trial: Trial<'_>) -> Result<Self, String> {
        Self::over(MemoryStore::default(), trial)
    }

    fn over(store: MemoryStore, trial: Trial<'_>) -> Result<Self, String> {
        let Trial { policies, client_ip, routes, policy, key } = trial;
        let clock = ManualClock::default();
        let store = Arc::new(store);
        let builder = Engine::builder().clock(clock.clone()).store(store.clone());
        let add = |builder: tidegate::EngineBuilder<_>, (name, policy): (&String, &Policy)| {
            builder.policy(name.clone(), policy.clone())
        };
        let engine = policies.iter().fold(builder, add).build();
        let engine = engine.map_err(|error| error.to_string())?;
        let view = |name: &String| engine.policies().find(|policy| policy.name() == name);
        let delays = policy.as_ref().and_then(view).is_some_and(|view| view.shaper().is_some());
        if let (Some(policy), false) = (&policy, delays) {
            let by = routes.key_of_policy(policy).filter(|_| key.is_none());
            let names = by.map(|by| by.names().map(|name| (name, &b"anybody"[..])).collect());
            let names: Vec<_> = names.unwrap_or_default();
            let key = if names.is_empty() { Key::One(b"anybody") } else { Key::Named(&names) };
            let check = Check { policy, key, cost: 1 };
            let names = policies.keys().map(String::as_str);
            engine.validate(&check, Op::Take).map_err(|error| unaskable(&error, names))?;
        }
        if policy.is_none() && routes.is_empty() {
            return Err("the configuration has no routes: say which `policy`".to_owned());
        }
        let key = key.map(CountedBy::One);
        Ok(Self { engine, store, clock, routes, client_ip, policy, key, delays })
    }

    /// Whether headers are worth reading: they take longer than the rest of a line.
    pub(super) fn reads_headers(&self) -> bool {
        self.key.as_ref().map_or_else(|| self.routes.reads_headers(), CountedBy::reads_headers)
    }

    /// How many counters were forgotten while they mattered, because there was no room for more.
    pub(super) fn forgotten(&self) -> u64 {
        self.store.stats().given_up
    }

    /// Decides a request at its time; `None` if no route limits it.
    pub(super) fn rule(&self, record: &Record<'_>) -> Result<Option<Ruling<'_>>, Unread> {
        let recorded = Recorded {
            client: record.client,
            method: &record.method,
            host: &record.host,
            target: &record.target,
            headers: headers(record),
        };
        let seen = Seen::recorded(&self.client_ip, recorded)
            .map_err(|doubt| Unread::Request(doubt.to_string()))?;
        let Some(found) = self.routes.find(&seen, self.policy.as_deref()) else { return Ok(None) };
        let (by, key) = match &self.key {
            Some(by) => (by, by.of(&seen, found.route)),
            None => (found.by, found.key),
        };
        self.clock.set(Timestamp::from_micros(record.at.us));
        let named = key.named();
        let check = Check { policy: found.policy, key: key.key(&named), cost: found.cost };
        let denied = self.denies(&check).map_err(|error| Unread::Request(error.to_string()))?;
        // Browsers send far more than an agent and where they came from.
        let guessed = by.reads_unlogged_headers() && seen.headers.len() <= 2;
        Ok(Some(Ruling { policy: found.policy, key: key.shown(), denied, guessed }))
    }

    /// A policy that is only tried out would not have refused, but says what it would have done: that is the question.
    fn denies(&self, check: &Check<'_>) -> Result<bool, CheckError> {
        if self.delays {
            let place = self.engine.reserve(check).now()?;
            return Ok(!place.accepted() || place.shadow_denied());
        }
        let answer = self.engine.ask(check, Op::Take).now()?;
        Ok(!answer.decision.allowed() || answer.shadow_denied)
    }
}

fn unaskable<'a>(error: &CheckError, known: impl Iterator<Item = &'a str>) -> String {
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
        // What could not have been sent is not there.
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
    use tidegate_config::Config;

    /// What is noted of so many clients who come twice each and may once a day, with a megabyte for their counters.
    fn notes(clients: u32) -> String {
        let config = Config::parse(
            "policies: { api: sliding-log 1/day }",
            &|_| None,
            tidegate::driver::StoreDrivers::MEMORY,
        )
        .unwrap();
        let trial = Trial {
            policies: &config.policies,
            client_ip: config.doors.client_ip.clone(),
            routes: config.doors.routes(),
            policy: Some("api".to_owned()),
            key: None,
        };
        let judge = Judge::over(MemoryStore::with_max_bytes(0), trial).unwrap();
        let line = |client: u32| {
            let client = std::net::Ipv4Addr::from(client);
            format!("{client} - - [10/Oct/2026:13:55:36 +0000] \"GET / HTTP/1.1\" 200 1\n")
        };
        let once: String = (0..clients).map(line).collect();
        let report = replay(&judge, (once.clone() + &once).as_bytes(), 1, |_, _| ()).unwrap();
        assert_eq!(report.policies[0].denied < clients.into(), report.notes.len() > 1);
        report.notes.concat()
    }

    #[test]
    fn counters_that_found_no_room_are_told() {
        assert!(!notes(100).contains("forgotten"));
        assert!(notes(50_000).contains("counters were forgotten"));
    }
}
