//! State in Redis: one limit for a fleet, exact, each check one atomic step of a script on Redis' own clock.

mod awake;
mod backoff;
mod batch;
mod clerk;
mod client;
mod cluster;
mod confirm;
mod desk;
mod error;
mod flight;
mod greet;
mod guard;
mod key;
mod lane;
mod link;
mod node;
mod nodes;
mod outlook;
mod overrides;
mod place;
mod question;
mod queue;
mod readings;
#[cfg(doctest)]
mod readme;
mod scout;
mod script;
mod sentinel;
mod serve;
mod settle;
mod slots;
mod stats;
mod ticket;
mod timer;
mod times;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod wire;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Decision, Timestamp};

use self::client::Client;
pub use self::guard::NodeBreaker;
use self::key::Keys;
use self::nodes::Nodes;
use self::question::{Outcome, Question};
pub use self::stats::RedisStats;
pub use self::times::CallTimes;
use tidegate::store_kit::{OwnedMultiCharge, OwnedRequest};
use tidegate::{
    BreakerOptions, Changed, Coordination, KeyedLimit, MultiCharge, OverrideChange, OverrideStore,
    OverrideTable, ReadingReport, RemoteStore, Replicas, Reply, ReserveReply, ReserveRequest,
    StateUpdate, Store, StoreError, StoreErrorKind, StoreExtensions, StoreReply, StoreRequest,
    TickReadings,
};

/// State in Redis, shared by everybody who names the same server and prefix.
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
    keys: Keys,
    /// Whether the asker's time goes for Redis' own.
    replays: bool,
    nodes: Nodes,
}

/// How to reach Redis, and how patient to be. Shown without the URL, which may hold a password.
///
/// ```
/// use std::time::Duration;
/// use tidegate_redis::RedisOptions;
///
/// let options = RedisOptions {
///     key_prefix: "shop".to_owned(),
///     hash_key: *b"sixteen secrets!",
///     deadline: Duration::from_millis(50),
///     ..RedisOptions::new("redis://127.0.0.1:6379")
/// };
/// assert_eq!(options.url, "redis://127.0.0.1:6379");
/// assert!(!options.replays); // Redis' own clock decides
/// assert!(options.announces); // and the others know of this node
/// assert!(options.breaker.is_none()); // unless told
/// ```
#[derive(Clone)]
pub struct RedisOptions {
    /// One of
    /// - `redis://[user:password@]host:port[/db]`
    /// - `rediss://…`, the same over TLS (feature `tls`), with `?ca=FILE` for an authority of one's own and
    ///   `&cert=FILE&key=FILE` for a client's certificate
    /// - `redis+unix:///path[?db=&user=&pass=]`
    /// - `redis+cluster://h1:p1,h2:p2`, `rediss+cluster://…`
    /// - `redis+sentinel://h1:p1,h2:p2/name[/db][?sentinel_user=&sentinel_password=]`, `rediss+sentinel://…`
    pub url: String,
    /// What every key begins with: keeps deployments on one Redis apart.
    pub key_prefix: String,
    /// The key of the hash of identifiers that are long or no plain text; the same on every node.
    pub hash_key: [u8; 16],
    /// How long a decision may take; 20 ms. Taken as 1 ms at least and a minute at most.
    pub deadline: Duration,
    /// Goes by the asker's time instead of Redis': for replays and tests only, since the clocks of a fleet differ.
    pub replays: bool,
    /// Whether this process is one of the [nodes](RedisStore::nodes) that share the store: not if it only looks.
    pub announces: bool,
    /// A [breaker](tidegate::Breaker) for each node of Redis; none unless told. One of a cluster that hangs is left alone
    /// by itself, and all others are asked as ever.
    pub breaker: Option<BreakerOptions>,
}

impl RedisOptions {
    /// The defaults for a URL.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_redis::RedisOptions;
    /// let options = RedisOptions::new("redis://127.0.0.1:6379");
    /// assert_eq!((options.key_prefix.as_str(), options.deadline), ("tg", Duration::from_millis(20)));
    /// ```
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            key_prefix: "tg".to_owned(),
            hash_key: *b"tidegate-default",
            deadline: Duration::from_millis(20),
            replays: false,
            announces: true,
            breaker: None,
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.url.split_once("://").map_or("", |(scheme, _)| scheme);
        f.debug_struct("RedisOptions")
            .field("url", &format_args!("{scheme}://…"))
            .field("key_prefix", &self.key_prefix)
            .field("deadline", &self.deadline)
            .field("replays", &self.replays)
            .finish_non_exhaustive()
    }
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
    /// // One way to Redis for as many engines as there are.
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
        // A replay shares its Redis with nobody.
        let announces = announces && !replays;
        let nodes = if announces { Nodes::announce(&client, &keys) } else { Nodes::default() };
        Ok(Self { client, keys, replays, nodes })
    }

    /// What the store's client has done so far.
    ///
    /// ```no_run
    /// # use tidegate_redis::{RedisOptions, RedisStats, RedisStore};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tidegate::StoreError> {
    /// let store = RedisStore::new(RedisOptions::new("redis://127.0.0.1:6379"))?;
    /// let RedisStats { questions, calls, .. } = store.stats();
    /// println!("{questions} questions were put in {calls} calls");
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> RedisStats {
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
    pub fn breakers(&self) -> Vec<NodeBreaker> {
        self.client.breakers()
    }

    /// Puts a question. One about calendar quotas may have to be put again, around Redis' now: the asker's clock may be
    /// in another period.
    fn put<T: Send + 'static>(
        &self,
        question: Question,
        again: Option<impl FnOnce(Timestamp) -> Question + Send + 'static>,
        read: fn(Outcome) -> Result<T, StoreError>,
    ) -> Reply<'static, T, StoreError> {
        let due = self.client.due();
        let answer = match self.client.submit(question, due) {
            Ok(answer) => answer,
            Err(error) => return Reply::ready(Err(error)),
        };
        let Some(again) = again else {
            return Reply::later(async move { read(answer.await?) });
        };
        let client = self.client.clone();
        Reply::later(async move {
            match answer.await? {
                Outcome::Edges(now) => read(client.submit(again(now), due)?.await?),
                outcome => read(outcome),
            }
        })
    }
}

impl Store for RedisStore {
    fn decide(
        &self,
        ask: &StoreRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, StoreReply, StoreError> {
        if !ask.is_valid() {
            let why = "expected 1 to 16 limits, and no key twice in a scope";
            return Reply::ready(Err(StoreError::new(StoreErrorKind::BadRequest, why)));
        }
        if ask.limits.windows(2).any(|pair| are_apart(&pair[0], &pair[1])) {
            let why = "limits on different identifiers need scopes that are together, of one policy \
                       or with one tag";
            return Reply::ready(Err(StoreError::new(StoreErrorKind::BadRequest, why)));
        }
        let replays = self.replays;
        let again = has_edges(ask.limits).then(|| {
            let (ask, keys) = (OwnedRequest::from_request(ask), self.keys.clone());
            move |now| ask.with(|ask| Question::of_ask(ask, &keys, now, replays.then_some(now)))
        });
        let question = Question::of_ask(ask, &self.keys, now, replays.then_some(now));
        self.put(question, again, settled)
    }

    fn decide_each(
        &self,
        takes: &MultiCharge<'_>,
        now: Timestamp,
    ) -> Reply<'static, Vec<Decision>, StoreError> {
        let limits = match takes.checked_limits() {
            Ok(limits) => limits,
            Err(error) => return Reply::ready(Err(error)),
        };
        let replays = self.replays;
        let question = Question::of_takes(takes, &limits, &self.keys, now, replays.then_some(now));
        if self.client.is_cluster() && !question.is_in_one_slot() {
            let why = "what is taken in one step of a cluster has to share a slot: give the policies one tag";
            return Reply::ready(Err(StoreError::new(StoreErrorKind::Apart, why)));
        }
        let again = has_edges(&limits).then(|| {
            let (takes, keys) = (OwnedMultiCharge::from_charges(takes), self.keys.clone());
            move |now| {
                takes.with(|takes| {
                    let limits: Vec<_> = takes.limits.iter().map(|take| take.keyed).collect();
                    Question::of_takes(takes, &limits, &keys, now, replays.then_some(now))
                })
            }
        });
        self.put(question, again, each)
    }

    fn reserve(
        &self,
        turn: &ReserveRequest<'_>,
        now: Timestamp,
    ) -> Reply<'static, ReserveReply, StoreError> {
        let question = Question::of_turn(turn, &self.keys, self.replays.then_some(now));
        match self.client.submit(question, self.client.due()) {
            Ok(answer) => Reply::later(async {
                match answer.await? {
                    Outcome::Reserved(place) => Ok(place),
                    other => Err(other.unexpected("no place in the reply")),
                }
            }),
            Err(error) => Reply::ready(Err(error)),
        }
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions { overrides: Some(self), coordination: Some(self), remote: Some(self) }
    }
}

impl RemoteStore for RedisStore {
    fn replicated(&self, replicas: Replicas) -> Option<Arc<dyn Store>> {
        let (client, keys) = (self.client.replicated(replicas), self.keys.clone());
        // The same node: announced once.
        let nodes = self.nodes.clone();
        Some(Arc::new(Self { client, keys, replays: self.replays, nodes }))
    }

    /// Over the same connections.
    fn within(&self, deadline: Duration) -> Option<Arc<dyn Store>> {
        let (client, keys) = (self.client.within(deadline), self.keys.clone());
        let nodes = self.nodes.clone();
        Some(Arc::new(Self { client, keys, replays: self.replays, nodes }))
    }
}

impl OverrideStore for RedisStore {
    fn overrides(
        &self,
        known: u64,
        now: Timestamp,
    ) -> Reply<'static, Option<OverrideTable>, StoreError> {
        overrides::load(&self.client, &self.keys, known, self.replays.then_some(now))
    }

    fn change_override(
        &self,
        change: &OverrideChange<'_>,
        now: Timestamp,
    ) -> Reply<'static, Changed, StoreError> {
        overrides::change(&self.client, &self.keys, change, self.replays.then_some(now))
    }
}

impl Coordination for RedisStore {
    fn report_reading(
        &self,
        telling: &ReadingReport<'_>,
        now: Timestamp,
    ) -> Reply<'static, TickReadings, StoreError> {
        readings::tell(&self.client, &self.keys, telling, self.replays.then_some(now))
    }

    fn keep_state(
        &self,
        keeping: &StateUpdate<'_>,
        now: Timestamp,
    ) -> Reply<'static, bool, StoreError> {
        readings::keep(&self.client, &self.keys, keeping, self.replays.then_some(now))
    }

    fn nodes(&self) -> Option<NonZeroU32> {
        self.nodes.count()
    }
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

fn settled(outcome: Outcome) -> Result<StoreReply, StoreError> {
    match outcome {
        Outcome::StoreReply(settled) => Ok(settled),
        other => Err(other.unexpected("no verdict in the reply")),
    }
}

fn each(outcome: Outcome) -> Result<Vec<Decision>, StoreError> {
    match outcome {
        Outcome::Each(decisions) => Ok(decisions),
        other => Err(other.unexpected("no decisions in the reply")),
    }
}
