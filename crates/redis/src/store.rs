//! The store: requests become script calls, and script replies become decisions.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::{CallTimes, NetworkStats};
use tidegate::store_kit::{OwnedMultiCharge, OwnedRequest, release_granted};
use tidegate::{
    Changed, Coordination, KeyedLimit, MultiCharge, Op, OverrideChange, OverrideStore,
    OverrideTable, ReadingReport, RemoteStore, Replicas, Reply, ReserveReply, ReserveRequest,
    StateUpdate, Store, StoreError, StoreErrorKind, StoreExtensions, StoreReply, StoreRequest,
    StoreResult, TickReadings,
};
use tidegate_core::{Decision, Timestamp};

use crate::client::Client;
use crate::key::Keys;
use crate::node_breaker::NodeBreakerStatus;
use crate::nodes::Nodes;
use crate::options::RedisOptions;
use crate::queue::UnusedGrant;
use crate::script_reply::ScriptReply;
use crate::script_request::{ScriptRequest, Scripts};

/// The shortest deadline of a page of the table of overrides: it can be 100 KiB and more.
const TABLE_DEADLINE_MIN: Duration = Duration::from_secs(1);

/// How many pages a table of overrides may have. The largest has about 20, and more while Redis resizes it.
const TABLE_PAGES_MAX: usize = 200;

/// The most work of limits that are charged together, in checks of a plain limit of about 10 µs: a script cannot be
/// interrupted. As much as a check of the heaviest policy: 16 sliding windows of 1,000 buckets.
const EACH_WORK_MAX: u64 = 2016;

const TOO_MUCH_WORK: &str =
    "too much for one step of Redis: expected fewer limits, or sliding windows with fewer buckets";

/// The shortest deadline of readings: only the next tick waits for them.
const READING_DEADLINE_MIN: Duration = Duration::from_millis(250);

/// The shortest deadline to give back what came too late: Redis is slow then, and nobody waits.
const GIVE_BACK_DEADLINE_MIN: Duration = Duration::from_secs(1);

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
        let keys = Keys::new(&key_prefix, hash_key, client.is_cluster());
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

    /// Gives back what a request is granted after its caller was told of a failure, or has left.
    fn unused_grant(&self, request: &StoreRequest<'_>) -> Option<UnusedGrant> {
        let grants = request.limits.iter().any(|keyed| keyed.limit.grants_permits());
        if !grants || request.op != Op::Take {
            return None;
        }
        let (request, client) = (OwnedRequest::from_request(request), self.client.downgrade());
        let (scripts, nodes) = (self.scripts.clone(), self.nodes.clone());
        Some(UnusedGrant::new(move |late| {
            let Some(client) = client.upgrade() else { return };
            let client = client.within_at_least(GIVE_BACK_DEADLINE_MIN);
            let store: Arc<dyn Store> = Arc::new(Self { client, scripts, nodes });
            release_granted(&store, &request, &late.permits);
        }))
    }

    /// Sends a request. One with calendar quotas may have to be sent again for Redis' own time: the caller's clock may be
    /// in another period.
    fn submit<T: Send + 'static>(
        &self,
        script: ScriptRequest,
        again: Option<
            impl FnOnce(Timestamp) -> (ScriptRequest, Option<UnusedGrant>) + Send + 'static,
        >,
        unused: Option<UnusedGrant>,
        read: fn(ScriptReply) -> Result<T, StoreError>,
    ) -> StoreResult<T> {
        let due = self.client.due();
        let answer = match self.client.submit(script, due, unused) {
            Ok(answer) => answer,
            Err(error) => return Reply::ready(Err(error)),
        };
        let Some(again) = again else {
            return Reply::later(async move { read(answer.await?) });
        };
        let client = self.client.clone();
        Reply::later(async move {
            match answer.await? {
                ScriptReply::Edges(now) => {
                    let (script, unused) = again(now);
                    read(client.submit(script, due, unused)?.await?)
                }
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
        let due = self.client.within_at_least(deadline_min).due();
        let answer = self.client.submit(request, due, None);
        Reply::later(async move { read(answer?.await?) })
    }
}

impl Store for RedisStore {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        if !request.is_valid() {
            return refused(StoreErrorKind::BadRequest, StoreRequest::INVALID);
        }
        if request.limits.windows(2).any(|pair| are_apart(&pair[0], &pair[1])) {
            let why = "limits on different identifiers need scopes that are together, of one policy \
                       or with one tag";
            return refused(StoreErrorKind::BadRequest, why);
        }
        let unused = || self.unused_grant(request);
        let again = has_edges(request.limits).then(|| {
            let (request, scripts) = (OwnedRequest::from_request(request), self.scripts.clone());
            let unused = unused();
            move |now| (request.with(|request| scripts.decide_around(request, now, now)), unused)
        });
        let script = self.scripts.decide(request, now);
        self.submit(script, again, unused(), ScriptReply::into_decided)
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
        if script.work > EACH_WORK_MAX {
            return refused(StoreErrorKind::BadRequest, TOO_MUCH_WORK);
        }
        let again = has_edges(&limits).then(|| {
            let charges = OwnedMultiCharge::from_charges(charges);
            let scripts = self.scripts.clone();
            move |now| (charges.with(|charges| scripts.decide_each(charges, now)), None)
        });
        self.submit(script, again, None, ScriptReply::into_each)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        if !request.is_valid() {
            return refused(StoreErrorKind::BadRequest, "no reservation is so far away");
        }
        let script = self.scripts.reserve(request, now);
        self.submit(script, None::<fn(_) -> _>, None, ScriptReply::into_reserved)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions {
            overrides: Some(self),
            coordination: Some(self),
            remote: Some(self),
            key_hasher: None,
        }
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

    fn deadline(&self) -> Option<Duration> {
        Some(self.client.deadline())
    }
}

impl OverrideStore for RedisStore {
    fn overrides(&self, known: u64, now: Timestamp) -> StoreResult<Option<OverrideTable>> {
        let client = self.client.within_at_least(TABLE_DEADLINE_MIN);
        let scripts = self.scripts.clone();
        let first = client.submit(scripts.load_overrides(known, 0, now), client.due(), None);
        Reply::later(async move {
            let Some(mut page) = first?.await?.into_table()? else { return Ok(None) };
            let (version, mut entries) = (page.version, page.entries);
            let mut pages = 1;
            while page.next != 0 {
                pages = next_page(pages)?;
                let next = scripts.load_overrides(known, page.next, now);
                // A change meanwhile gives the table another version, so that the next poll loads it again.
                let next = client.submit(next, client.due(), None)?.await?.into_table()?;
                page = next.ok_or_else(no_page)?;
                entries.append(&mut page.entries);
            }
            // A page may repeat a name of another.
            entries.sort_by(|a, b| (&a.policy, &a.key).cmp(&(&b.policy, &b.key)));
            entries.dedup_by(|a, b| a.policy == b.policy && a.key == b.key);
            Ok(Some(OverrideTable { version, entries }))
        })
    }

    fn change_override(&self, change: &OverrideChange<'_>, now: Timestamp) -> StoreResult<Changed> {
        let otherwise = match change {
            OverrideChange::Remove { .. } => Changed::NotThere,
            OverrideChange::Set { .. } => Changed::Full,
        };
        let request = self.scripts.change_override(change, now);
        let client = self.client.within_at_least(TABLE_DEADLINE_MIN);
        let scripts = self.scripts.clone();
        let first = client.submit(request.clone(), client.due(), None);
        Reply::later(async move {
            let mut done = first?.await?.into_changed()?;
            if !done && otherwise == Changed::Full {
                // What has expired makes room.
                let (mut cursor, mut pages) = (0, 0);
                loop {
                    pages = next_page(pages)?;
                    let sweep = scripts.sweep_overrides(cursor, now);
                    cursor = client.submit(sweep, client.due(), None)?.await?.into_swept()?;
                    if cursor == 0 {
                        break;
                    }
                }
                done = client.submit(request, client.due(), None)?.await?.into_changed()?;
            }
            Ok(if done { Changed::Done } else { otherwise })
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

/// The number of pages of a table of overrides with one more.
fn next_page(pages: usize) -> Result<usize, StoreError> {
    let endless = || StoreError::new(StoreErrorKind::Protocol, "a table of overrides without end");
    (pages < TABLE_PAGES_MAX).then_some(pages + 1).ok_or_else(endless)
}

fn no_page() -> StoreError {
    StoreError::new(StoreErrorKind::Protocol, "the table of overrides lacks a page")
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
