//! The store: requests become script calls, and script replies become decisions.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::{CallTimes, NetworkStats};
use tidegate::store_kit::{OwnedMultiCharge, OwnedRequest};
use tidegate::{
    Changed, Coordination, KeyedLimit, MultiCharge, OverrideChange, OverrideStore, OverrideTable,
    ReadingReport, RemoteStore, Replicas, Reply, ReserveReply, ReserveRequest, StateUpdate, Store,
    StoreError, StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult,
    TickReadings,
};
use tidegate_core::{Decision, Timestamp};

use crate::client::Client;
use crate::key::Keys;
use crate::node_breaker::NodeBreakerStatus;
use crate::nodes::Nodes;
use crate::options::RedisOptions;
use crate::script_reply::ScriptReply;
use crate::script_request::{ScriptRequest, Scripts};

/// The shortest deadline of a table of overrides: it can be megabytes.
const TABLE_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// The shortest deadline of readings: only the next tick waits for them.
const READING_DEADLINE_MIN: Duration = Duration::from_millis(250);

/// State in Redis, shared by all processes with the same server and prefix.
///
/// ```no_run
/// use tidegate::Engine;
/// use tidegate_redis::{RedisOptions, RedisStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::new(RedisOptions::new("redis://127.0.0.1:6379"))?;
/// let engine = Engine::builder().store(store).policy("api", "100/min burst 20").build()?;
/// // Counted together with all that every other node admits.
/// assert!(engine.check("api", "user-42").await?.decision.allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisStore {
    client: Client,
    scripts: Scripts,
    nodes: Nodes,
}

impl RedisStore {
    /// A store that connects by itself, now and whenever it has to. Needs a running tokio runtime.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use tidegate::Engine;
    /// # use tidegate_redis::{RedisOptions, RedisStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = Arc::new(RedisStore::new(RedisOptions::new("redis://127.0.0.1:6379"))?);
    /// // All engines share one connection.
    /// let public = Engine::builder().store(store.clone()).policy("api", "100/min").build()?;
    /// let internal = Engine::builder().store(store).policy("reports", "5/min").build()?;
    /// assert!(public.check("api", "user-42").await?.decision.allowed());
    /// assert!(internal.check("reports", "user-42").await?.decision.allowed());
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(options: RedisOptions) -> Result<Self, StoreError> {
        let RedisOptions { url, key_prefix, hash_key, deadline, replays, announces, breaker } =
            options;
        let client = Client::start(&url, deadline, breaker)?;
        let keys = Keys::new(&key_prefix, hash_key);
        // A replay is no node of a fleet.
        let announces = announces && !replays;
        let nodes = if announces { Nodes::announce(&client, &keys) } else { Nodes::default() };
        Ok(Self { client, scripts: Scripts { keys, replays }, nodes })
    }

    /// What the store's client has done so far.
    ///
    /// ```no_run
    /// # use tidegate::driver::NetworkStats;
    /// # use tidegate_redis::{RedisOptions, RedisStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::StoreError> {
    /// let store = RedisStore::new(RedisOptions::new("redis://127.0.0.1:6379"))?;
    /// let NetworkStats { requests, calls, .. } = store.stats();
    /// println!("{requests} requests in {calls} calls");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> NetworkStats {
        self.client.stats()
    }

    /// How long script calls took so far.
    ///
    /// ```no_run
    /// # use tidegate_redis::{RedisOptions, RedisStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::StoreError> {
    /// let store = RedisStore::new(RedisOptions::new("redis://127.0.0.1:6379"))?;
    /// let times = store.call_times();
    /// println!("{} µs a call", times.total_us / times.counts.iter().sum::<u64>().max(1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_times(&self) -> CallTimes {
        self.client.call_times()
    }

    /// What the breaker of each node does: of all that are known. None where [`RedisOptions::breaker`] is none.
    ///
    /// ```no_run
    /// # use tidegate::{BreakerOptions, BreakerState};
    /// # use tidegate_redis::{RedisOptions, RedisStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::StoreError> {
    /// let breaker = Some(BreakerOptions::default());
    /// let options = RedisOptions { breaker, ..RedisOptions::new("redis://127.0.0.1:6379") };
    /// let store = RedisStore::new(options)?;
    /// assert_eq!(store.breakers()[0].state, BreakerState::Closed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn breakers(&self) -> Vec<NodeBreakerStatus> {
        self.client.breakers()
    }

    /// The same store over another client. It is the same node, and announced once.
    fn over(&self, client: Client) -> Arc<dyn Store> {
        Arc::new(Self { client, scripts: self.scripts.clone(), nodes: self.nodes.clone() })
    }

    /// Sends a request. One with calendar quotas may have to be sent again for Redis' own time: the caller's clock may be
    /// in another period.
    fn submit<T: Send + 'static>(
        &self,
        script: ScriptRequest,
        again: Option<impl FnOnce(Timestamp) -> ScriptRequest + Send + 'static>,
        read: fn(ScriptReply) -> Result<T, StoreError>,
    ) -> StoreResult<T> {
        let due = self.client.due();
        let answer = match self.client.submit(script, due) {
            Ok(answer) => answer,
            Err(error) => return Reply::ready(Err(error)),
        };
        let Some(again) = again else {
            return Reply::later(async move { read(answer.await?) });
        };
        let client = self.client.clone();
        Reply::later(async move {
            match answer.await? {
                ScriptReply::Edges(now) => read(client.submit(again(now), due)?.await?),
                reply => read(reply),
            }
        })
    }

    /// Sends a request that no caller of a check waits for.
    fn submit_in_background<T: Send + 'static>(
        &self,
        request: ScriptRequest,
        deadline_min: Duration,
        read: fn(ScriptReply) -> Result<T, StoreError>,
    ) -> StoreResult<T> {
        let answer = self.client.submit(request, self.client.within_at_least(deadline_min).due());
        Reply::later(async move { read(answer?.await?) })
    }
}

impl Store for RedisStore {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        if !request.is_valid() {
            let why = "expected 1 to 16 limits, and no key twice in a scope";
            return refused(StoreErrorKind::BadRequest, why);
        }
        if request.limits.windows(2).any(|pair| are_apart(&pair[0], &pair[1])) {
            let why = "limits on different identifiers need scopes that are together, of one policy \
                       or with one tag";
            return refused(StoreErrorKind::BadRequest, why);
        }
        let again = has_edges(request.limits).then(|| {
            let (request, scripts) = (OwnedRequest::from_request(request), self.scripts.clone());
            move |now| request.with(|request| scripts.decide(request, now))
        });
        self.submit(self.scripts.decide(request, now), again, ScriptReply::into_decided)
    }

    fn decide_each(&self, charges: &MultiCharge<'_>, now: Timestamp) -> StoreResult<Vec<Decision>> {
        let limits = match charges.checked_limits() {
            Ok(limits) => limits,
            Err(error) => return Reply::ready(Err(error)),
        };
        let script = self.scripts.decide_each(charges, now);
        if self.client.is_cluster() && !script.is_in_one_slot() {
            let why = "what is charged in one step of a cluster has to share a slot: give the policies one tag";
            return refused(StoreErrorKind::Apart, why);
        }
        let again = has_edges(&limits).then(|| {
            let charges = OwnedMultiCharge::from_charges(charges);
            let scripts = self.scripts.clone();
            move |now| charges.with(|charges| scripts.decide_each(charges, now))
        });
        self.submit(script, again, ScriptReply::into_each)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        let script = self.scripts.reserve(request, now);
        self.submit(script, None::<fn(_) -> _>, ScriptReply::into_reserved)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions { overrides: Some(self), coordination: Some(self), remote: Some(self) }
    }
}

impl RemoteStore for RedisStore {
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        Some(self.over(self.client.replicated(replicas)))
    }

    /// Over the same connections.
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        Some(self.over(self.client.within(deadline)))
    }
}

impl OverrideStore for RedisStore {
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>> {
        let request = self.scripts.load_overrides(known, now);
        self.submit_in_background(request, TABLE_DEADLINE_MIN, ScriptReply::into_table)
    }

    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed> {
        let otherwise = match change {
            OverrideChange::Remove { .. } => Changed::NotThere,
            OverrideChange::Set { .. } => Changed::Full,
        };
        let request = self.scripts.change_override(change, now);
        let changed =
            self.submit_in_background(request, TABLE_DEADLINE_MIN, ScriptReply::into_changed);
        Reply::later(async move {
            changed.await.map(|done| if done { Changed::Done } else { otherwise })
        })
    }
}

impl Coordination for RedisStore {
    fn report_reading(
        &self,
        report: &ReadingReport<'_>,
        now: Timestamp,
    ) -> StoreResult<TickReadings> {
        if let Err(error) = report.validate() {
            return Reply::ready(Err(error));
        }
        let request = self.scripts.report_reading(report, now);
        self.submit_in_background(request, READING_DEADLINE_MIN, ScriptReply::into_readings)
    }

    fn keep_state(&self, update: &StateUpdate<'_>, now: Timestamp) -> StoreResult<bool> {
        if let Err(error) = update.validate() {
            return Reply::ready(Err(error));
        }
        let request = self.scripts.keep_state(update, now);
        self.submit_in_background(request, READING_DEADLINE_MIN, ScriptReply::into_changed)
    }

    fn nodes(&self) -> Option<NonZeroU32> {
        self.nodes.count()
    }
}

fn refused<T: Send>(kind: StoreErrorKind, why: &'static str) -> StoreResult<T> {
    Reply::ready(Err(StoreError::new(kind, why)))
}

/// Whether two limits of one request are counted under different tags.
fn are_apart(a: &KeyedLimit<'_>, b: &KeyedLimit<'_>) -> bool {
    let (one, other) = (a.scope, b.scope);
    if one.tag() != other.tag() || one.is_together() != other.is_together() {
        return true;
    }
    match one.tag() {
        Some(_) => false,
        None if one.is_together() => one.policy() != other.policy(),
        None => a.key != b.key,
    }
}

fn has_edges(limits: &[KeyedLimit<'_>]) -> bool {
    limits.iter().any(|keyed| keyed.limit.has_edges())
}
