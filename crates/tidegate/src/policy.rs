//! What a [`Policy`] is made of: named limits, one or several, as an [`Engine`](crate::Engine) holds them.

mod compiled;
mod enforce;
mod exception;
mod problem;
mod share;

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use tidegate_core::{LeakyBucket, Limit, LimitError, Mode, Rate};

pub use crate::cidr::{Cidr, CidrError};
pub use crate::effective::Effective;
use crate::key::AsKey;
use crate::overrides::Overrides;
use crate::store::deny_cache::DENY_CACHE_TTL;
pub use crate::store::{Replicas, Unconfirmed};

pub(crate) use self::compiled::{Compiled, CompiledKind, PolicyOverrides};
pub use self::enforce::{Percent, PercentError};
pub use self::exception::Override;
pub(crate) use self::exception::OverrideInForce;
pub use self::problem::PolicyProblem;
pub use self::share::Share;

/// What a name stands for: one limit, several in one atomic step, or a shaper.
///
/// ```
/// use tidegate::{Engine, Policy};
///
/// let api: Policy = "100/min burst 20".try_into()?;
/// let plan = Policy::all().limit("second", "10/s").limit("day", "fixed-window 10000/day");
/// let signup = Policy::all()
///     .limit_by("ip", "ip", "3/h")
///     .limit_by("domain", "email_domain", "50/h");
/// let export = Policy::shaper("2/s max-wait 5s");
///
/// let engine = Engine::builder().policy("api", api).policy("plan", plan);
/// let engine = engine.policy("signup", signup).policy("export", export).build()?;
/// assert!(engine.check("plan", "user-42").now()?.decision.allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a policy limits nothing until it is given to an engine"]
pub struct Policy {
    kind: Result<Kind, PolicyProblem>,
    overrides: Overrides<Override>,
    /// Those in place of one of several limits, by its name.
    by_limit: BTreeMap<String, Overrides<Override>>,
    tag: Option<String>,
    /// Whether tenants share its limit through other policies.
    is_shared: bool,
    options: PolicyOptions,
}

/// How a policy asks its store, and what it does without it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PolicyOptions {
    /// As given: see [`Compiled::on_store_error`].
    pub(crate) on_store_error: Option<OnStoreError>,
    /// How long refusals are remembered; `None` if they are not.
    pub(crate) deny_cache_ttl: Option<Duration>,
    pub(crate) lease: bool,
    pub(crate) replicas: Option<Replicas>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) quorum: bool,
    pub(crate) shadow: bool,
    /// The part of all callers that it is enforced for; `None` for all.
    pub(crate) enforce: Option<Percent>,
}

#[derive(Clone, Debug)]
enum Kind {
    Limits { mode: Mode, members: Vec<Member> },
    Shaper(LeakyBucket),
    Share(Share),
}

/// What a policy is asked for.
///
/// ```
/// use tidegate::{Engine, Policy, PolicyKind};
///
/// let engine = Engine::builder()
///     .policy("api", "100/min")
///     .policy("export", Policy::shaper("2/s max-wait 5s"))
///     .policy("report", "concurrency 2")
///     .build()?;
/// let kind = |name| engine.policy(name).map(|policy| policy.kind());
/// assert_eq!(kind("api")?, PolicyKind::Limits);
/// assert_eq!(kind("export")?, PolicyKind::Shaper);
/// assert_eq!(kind("report")?, PolicyKind::Concurrency);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PolicyKind {
    /// Decides: ask [`Engine::check`](crate::Engine::check).
    Limits,
    /// Limits concurrency: ask [`Engine::acquire`](crate::Engine::acquire), whose permits have to be given back.
    Concurrency,
    /// Delays: ask [`Engine::reserve`](crate::Engine::reserve).
    Shaper,
}

/// One limit of a policy.
///
/// ```
/// use tidegate::{Engine, Member, Policy};
///
/// let signup = Policy::all().limit_by("address", "ip", "3/h");
/// let engine = Engine::builder().policy("signup", signup).build()?;
/// let members: Vec<&Member> = engine.policies().flat_map(|policy| policy.members()).collect();
/// assert_eq!(members[0].name, "address");
/// assert_eq!(members[0].key.as_deref(), Some("ip"));
/// assert_eq!(members[0].limit.units(), 3);
/// assert!(members[0].effective.is_none()); // it does not move
/// assert_eq!(members[0].cost.get(), 1); // a unit for a unit
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Member {
    /// The limit's name, as answers call it when it binds.
    pub name: String,
    /// Which of the caller's identifiers it counts; `None` for the only one.
    pub key: Option<String>,
    /// The limit.
    pub limit: Limit,
    /// How much of it is in force, if that [moves](Policy::adaptive).
    pub effective: Option<Effective>,
    /// How many of its units one unit of a check's cost takes: 1, unless the policy [says](Policy::cost) otherwise.
    pub cost: NonZeroU64,
}

/// What to answer when the store cannot.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Engine, OnStoreError, Policy, Source};
/// # use tidegate::{StoreRequest, ReserveReply, Reply, StoreReply, StoreResult, Store, StoreError, Timestamp, StoreErrorKind, ReserveRequest};
/// # #[derive(Debug)]
/// # struct Down;
/// # impl Store for Down {
/// #     fn decide(&self, _: &StoreRequest<'_>, _: Timestamp) -> StoreResult<StoreReply> {
/// #         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "no connection")))
/// #     }
/// #     fn reserve(&self, _: &ReserveRequest<'_>, _: Timestamp) -> StoreResult<ReserveReply> {
/// #         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "no connection")))
/// #     }
/// # }
///
/// let hour = Policy::all().limit("hour", "5/h");
/// let soon = OnStoreError::Deny { retry_after: Duration::from_secs(5) };
/// let engine = Engine::builder()
///     .store(Down) // one that never answers
///     .policy("page", hour.clone().on_store_error(OnStoreError::Allow))
///     .policy("order", hour.clone().on_store_error(soon))
///     // Nobody may guess passwords faster because a store is down.
///     .policy("login", hour.clone().on_store_error(OnStoreError::DENY))
///     .policy("api", hour.on_store_error(OnStoreError::Local))
///     .build()?;
/// let source = |policy| engine.check(policy, "user-42").now().map(|answer| answer.source);
/// assert_eq!(source("page")?, Source::FailOpen);
/// assert_eq!(source("order")?, Source::FailClosed);
/// assert_eq!(source("login")?, Source::FailClosed);
/// assert_eq!(source("api")?, Source::Local);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnStoreError {
    /// Admit, as if nothing had been spent.
    Allow,
    /// Admit nothing, and answer when to retry.
    Deny {
        /// The wait that refused callers are asked for.
        retry_after: Duration,
    },
    /// Enforce this node's share of the limit in this process.
    #[default]
    Local,
}

impl OnStoreError {
    /// Admit nothing, and ask to come back in a minute.
    pub const DENY: Self = Self::Deny { retry_after: Duration::from_mins(1) };
}

impl Policy {
    /// Admits if every limit does; all are charged, or none.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let plan = Policy::all().limit("hour", "5/h").limit("day", "3/day");
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// let answer = engine.check("plan", "user-42").now()?;
    /// // The one with the least left speaks for all.
    /// assert_eq!((answer.binding, answer.decision.remaining()), ("day", 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all() -> Self {
        Self::with_mode(Mode::All)
    }

    /// Admits if one limit does; those that admit are charged.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let plan = Policy::any().limit("included", "1/day").limit("extra", "2/day");
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// assert!(engine.check("plan", "user-42").now()?.decision.allowed()); // charged to both
    /// assert_eq!(engine.check("plan", "user-42").now()?.binding, "extra"); // the other has none left
    /// assert!(!engine.check("plan", "user-42").now()?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn any() -> Self {
        Self::with_mode(Mode::Any)
    }

    /// Delays instead of refusing: for [`Engine::reserve`](crate::Engine::reserve).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Check, Engine, Key, Policy};
    /// let engine = Engine::builder().policy("export", Policy::shaper("2/h max-wait 5h")).build()?;
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 2 };
    /// assert_eq!(engine.reserve(&check).now()?.delay(), Duration::ZERO);
    /// assert!(engine.reserve(&check).now()?.delay() > Duration::from_secs(3000)); // an hour behind
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shaper(limit: impl TryInto<LeakyBucket, Error: Into<LimitError>>) -> Self {
        let kind = limit.try_into().map(Kind::Shaper);
        Self::new(kind.map_err(|error| PolicyProblem::Limit(error.into())))
    }

    /// Shares the limit of another policy fairly among tenants. Both are charged in one atomic step, so that never more is
    /// admitted than that limit admits alone. While tenants ask for more than that, each gets its weighted max–min share
    /// within a second: what one does not use is lent to the others. Otherwise nobody notices it.
    ///
    /// The other policy has one limit on the identifier `global`. What is asked of it directly counts, and is divided among
    /// nobody. Several policies may share it: they divide it together, and whoever is called the same in two of them is one
    /// tenant. A tenant is active while it asks at least once a second; up to 1,000 are told apart, and all others are one
    /// tenant together.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Engine, ManualClock, Policy, Share};
    /// let clock = ManualClock::default();
    /// let engine = Engine::builder()
    ///     .clock(clock.clone())
    ///     .policy("total", Policy::all().limit_by("", "global", "100/s burst 10"))
    ///     .policy("api", Policy::share(Share::of("total", "tenant")))
    ///     .build()?;
    /// let mut admitted = [0, 0];
    /// for ms in 0..3_000 {
    ///     clock.advance(Duration::from_millis(1));
    ///     for _ in 0..10 {
    ///         // A hundred times what the limit admits.
    ///         let bot = engine.check("api", "bot").now()?.decision.allowed();
    ///         admitted[0] += u32::from(bot && ms >= 1_000);
    ///     }
    ///     if ms % 25 == 0 {
    ///         // 40 a second: less than half of the limit.
    ///         let acme = engine.check("api", "acme").now()?.decision.allowed();
    ///         admitted[1] += u32::from(acme && ms >= 1_000);
    ///     }
    /// }
    /// assert!(admitted[1] >= 76, "nearly all of its 80"); // and the bot has what is left
    /// assert!((112..=124).contains(&admitted[0]), "{admitted:?}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn share(share: Share) -> Self {
        Self::new(share.check().map(|()| Kind::Share(share)))
    }

    fn with_mode(mode: Mode) -> Self {
        Self::new(Ok(Kind::Limits { mode, members: Vec::new() }))
    }

    fn new(kind: Result<Kind, PolicyProblem>) -> Self {
        let options = PolicyOptions {
            on_store_error: None,
            deny_cache_ttl: Some(DENY_CACHE_TTL),
            lease: false,
            replicas: None,
            deadline: None,
            quorum: false,
            shadow: false,
            enforce: None,
        };
        let (overrides, by_limit) = (Overrides::default(), BTreeMap::new());
        Self { kind, overrides, by_limit, tag: None, is_shared: false, options }
    }

    /// Adds a limit on the caller's only identifier.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy, PolicyProblem};
    /// let twice = Policy::all().limit("hour", "5/h").limit("hour", "20/day");
    /// let built = Engine::builder().policy("api", twice).build();
    /// let same = PolicyProblem::SameName("hour".to_owned());
    /// assert_eq!(built.err().map(|error| error.problem), Some(same)); // or answers would be ambiguous
    /// ```
    pub fn limit(
        self,
        name: impl Into<String>,
        limit: impl TryInto<Limit, Error: Into<LimitError>>,
    ) -> Self {
        self.member(name.into(), None, limit.try_into().map_err(Into::into))
    }

    /// Adds a limit on the identifier called `key`. `global` has the same value for everybody, and nobody gives it.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key, Op, Policy};
    /// let signup = Policy::all().limit_by("ip", "ip", "1/h").limit_by("mail", "domain", "50/h");
    /// let engine = Engine::builder().policy("signup", signup).build()?;
    /// let sign_up = |ip: &[u8]| {
    ///     let keys: [(&str, &[u8]); 2] = [("ip", ip), ("domain", b"example.org")];
    ///     engine.ask(&Check { policy: "signup", key: Key::Named(&keys), cost: 1 }, Op::Take).now()
    /// };
    /// assert!(sign_up(b"203.0.113.9")?.decision.allowed());
    /// assert!(!sign_up(b"203.0.113.9")?.decision.allowed());
    /// assert_eq!(sign_up(b"203.0.113.10")?.decision.remaining(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn limit_by(
        self,
        name: impl Into<String>,
        key: impl Into<String>,
        limit: impl TryInto<Limit, Error: Into<LimitError>>,
    ) -> Self {
        self.member(name.into(), Some(key.into()), limit.try_into().map_err(Into::into))
    }

    fn member(
        mut self,
        name: String,
        key: Option<String>,
        limit: Result<Limit, LimitError>,
    ) -> Self {
        match (&mut self.kind, limit) {
            (Ok(Kind::Limits { members, .. }), Ok(limit)) => {
                let cost = NonZeroU64::MIN;
                members.push(Member { name, key, limit, effective: None, cost });
            }
            (Ok(_), Err(error)) => self.kind = Err(PolicyProblem::Limit(error)),
            (Ok(Kind::Shaper(_)), Ok(_)) => self.kind = Err(PolicyProblem::ShaperAmongLimits),
            (Ok(Kind::Share(_)), Ok(_)) => self.kind = Err(PolicyProblem::ShareAmongLimits),
            (Err(_), _) => {} // the first problem is reported
        }
        self
    }

    /// Lets the limit of this name move with the load of what it protects: see [`Effective`]. A key's own limit moves in
    /// proportion. Other limits of the policy stay as they are, and so do quotas and limits on concurrency.
    ///
    /// ```
    /// # use tidegate::{Effective, Engine, Policy};
    /// let load = Effective::default();
    /// let plan = Policy::all()
    ///     .limit("second", "fixed-window 100/s")
    ///     .limit("day", "fixed-window 10000/day")
    ///     .adaptive("second", &load);
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// load.set(5);
    /// let answer = engine.check("plan", "user-42").now()?;
    /// assert_eq!((answer.binding, answer.decision.limit()), ("second", 5));
    /// assert!(answer.limit.is_some_and(|limit| limit.units() == 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn adaptive(mut self, limit: &str, effective: &Effective) -> Self {
        match &self.kind {
            Ok(Kind::Shaper(_)) => self.kind = Err(PolicyProblem::AdaptiveShaper),
            Ok(Kind::Share(share)) => {
                self.kind = Err(PolicyProblem::AdaptiveShare(share.of.clone()));
            }
            Ok(Kind::Limits { .. }) | Err(_) => {}
        }
        self.with_member(limit, |member| member.effective = Some(effective.clone()))
    }

    /// Multiplies a check's cost for the limit of this name: each unit takes `factor` units of it. So one check can count
    /// requests and what they weigh. An answer speaks of the limit that has the fewest checks left, in that limit's own
    /// units.
    ///
    /// ```
    /// # use tidegate::{Check, CheckError, Engine, Key, Op, Policy};
    /// let plan = Policy::all()
    ///     .limit("requests", "fixed-window 100/min")
    ///     .limit("units", "fixed-window 500/min")
    ///     .cost("units", 10);
    /// let engine = Engine::builder().policy("plan", plan).build()?;
    /// let ask = |cost, op| engine.ask(&Check { policy: "plan", key: Key::One(b"user-42"), cost }, op).now();
    /// let answer = ask(45, Op::Take)?; // 45 requests, 450 units
    /// assert_eq!((answer.binding, answer.decision.remaining()), ("units", 50));
    /// assert!(!ask(6, Op::Take)?.decision.allowed()); // 60 units
    /// assert_eq!(ask(2, Op::Refund)?.decision.remaining(), 70); // units
    /// // A product above 2^53 is an error, and nothing is charged.
    /// assert!(matches!(ask(1 << 60, Op::Take), Err(CheckError::CostTooHigh { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cost(mut self, limit: &str, factor: u64) -> Self {
        let Some(factor) = NonZeroU64::new(factor) else {
            self.kind = self.kind.and(Err(PolicyProblem::ZeroCost(limit.to_owned())));
            return self;
        };
        self.with_member(limit, |member| member.cost = factor)
    }

    /// Changes the limit of this name.
    fn with_member(mut self, limit: &str, change: impl FnOnce(&mut Member)) -> Self {
        let members = match &mut self.kind {
            Ok(Kind::Limits { members, .. }) => members,
            Ok(Kind::Shaper(_) | Kind::Share(_)) => &mut Vec::new(),
            Err(_) => return self, // the first problem is reported
        };
        match members.iter_mut().find(|member| member.name == limit) {
            Some(member) => change(member),
            None => self.kind = Err(PolicyProblem::NoSuchLimit(limit.to_owned())),
        }
        self
    }

    /// Gives one key something else than the policy. Of several identifiers in a check, only those that the limits count
    /// matter: one that is blocked refuses the check, and it is always allowed only if all of them are, since the client may
    /// be able to choose one.
    ///
    /// ```
    /// # use tidegate::{Engine, Override, Policy};
    /// let login = Policy::all().limit("hour", "5/h").with_override("scraper", Override::Block);
    /// let engine = Engine::builder().policy("login", login).build()?;
    /// assert!(engine.check("login", "user-42").now()?.decision.allowed());
    /// assert!(!engine.check("login", "scraper").now()?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_override(mut self, key: impl AsKey, instead: Override) -> Self {
        self.overrides_beside(&instead).insert(key.as_key().as_ref(), instead);
        self
    }

    /// Gives all keys that are an address in a network, or a smaller network like the `2001:db8:1:2::/64` that clients of
    /// IPv6 are counted by, something else than the policy. An override of the key itself comes first, then that of the
    /// smallest network. With a limit, each key has it for itself.
    ///
    /// ```
    /// # use tidegate::{Engine, Override, Policy};
    /// let api = Policy::all()
    ///     .limit("", "5/h")
    ///     .with_override_for("10.0.0.0/8".parse()?, Override::Allow)
    ///     .with_override_for("10.6.0.0/16".parse()?, Override::Limit("100/h".parse()?))
    ///     .with_override("10.6.6.6", Override::Block);
    /// let engine = Engine::builder().policy("api", api).build()?;
    /// let limit = |key| engine.check("api", key).now().map(|answer| answer.decision.limit());
    /// assert_eq!((limit("10.1.2.3")?, limit("10.6.1.1")?, limit("10.6.6.6")?), (u64::MAX, 100, 0));
    /// assert_eq!((limit("203.0.113.9")?, limit("user-42")?), (5, 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_override_for(mut self, network: Cidr, instead: Override) -> Self {
        self.overrides_beside(&instead).insert_for(network, instead);
        self
    }

    /// The table that an override belongs to.
    fn overrides_beside(&mut self, instead: &Override) -> &mut Overrides<Override> {
        match instead {
            Override::OneLimit { name, .. } => self.by_limit.entry(name.clone()).or_default(),
            _ => &mut self.overrides,
        }
    }

    /// Says what to answer when the store cannot; by default this node's share is enforced in process.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Engine, OnStoreError, Policy};
    /// # use tidegate::{StoreRequest, ReserveReply, Reply, StoreReply, StoreResult, Store, StoreError, Timestamp, StoreErrorKind, ReserveRequest};
    /// # #[derive(Debug)]
    /// # struct Down;
    /// # impl Store for Down {
    /// #     fn decide(&self, _: &StoreRequest<'_>, _: Timestamp) -> StoreResult<StoreReply> {
    /// #         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "no connection")))
    /// #     }
    /// #     fn reserve(&self, _: &ReserveRequest<'_>, _: Timestamp) -> StoreResult<ReserveReply> {
    /// #         Reply::ready(Err(StoreError::new(StoreErrorKind::Unreachable, "no connection")))
    /// #     }
    /// # }
    /// let login = Policy::all().limit("hour", "5/h").on_store_error(OnStoreError::DENY);
    /// let engine = Engine::builder().store(Down).policy("login", login).build()?;
    /// let decision = engine.check("login", "user-42").now()?.decision;
    /// assert!(!decision.allowed());
    /// assert_eq!(decision.retry_after(), Some(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.options.on_store_error = Some(on_store_error);
        self
    }

    /// Whether refusals of the store are [remembered](crate::DenyCache) for up to a second; by default they are, unless
    /// the store answers at once anyway.
    ///
    /// ```
    /// use tidegate::Policy;
    ///
    /// // Support gives units back on other nodes, and callers must notice at once.
    /// let exports = Policy::all().limit("day", "quota 20/day").deny_cache(false);
    /// ```
    pub fn deny_cache(mut self, deny_cache: bool) -> Self {
        self.options.deny_cache_ttl = deny_cache.then_some(DENY_CACHE_TTL);
        self
    }

    /// How long refusals of the store are [remembered](crate::DenyCache) at most, instead of a second: the store is asked
    /// about a blocked key once in that time, and units that are given back on other nodes are seen after it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Policy;
    ///
    /// // An attack on a blocked key costs the store one call in ten seconds.
    /// let login = Policy::all().limit("hour", "5/h").deny_cache_ttl(Duration::from_secs(10));
    /// ```
    pub fn deny_cache_ttl(mut self, ttl: Duration) -> Self {
        self.options.deny_cache_ttl = Some(ttl);
        self
    }

    /// Whether units are [taken ahead](crate::Leases) and spent in this process, where the store does not answer at once
    /// anyway; by default they are not. All nodes that share the store have to agree on it. Never admits more, and up to
    /// a lease's life of the rate less.
    ///
    /// A reset, or a refund of more than was spent, may admit what other nodes have out on lease at that instant on top,
    /// once.
    ///
    /// ```
    /// use tidegate::{Engine, Policy};
    ///
    /// let uploads = Policy::all().limit("", "token-bucket 1000/s capacity 500").lease(true);
    /// let exports = Policy::all().limit("", "concurrency 5").lease(true);
    /// assert!(Engine::builder().policy("uploads", uploads).build().is_ok());
    /// assert!(Engine::builder().policy("exports", exports).build().is_err()); // what is in flight cannot be lent
    /// ```
    pub fn lease(mut self, lease: bool) -> Self {
        self.options.lease = lease;
        self
    }

    /// Has what is charged confirmed by replicas of the store before it is answered, so that a failover does not forget
    /// it; by default nothing is. A store without replicas is asked as ever.
    ///
    /// ```
    /// use tidegate::{Policy, Replicas, Unconfirmed};
    ///
    /// // No text message that a replica does not know of.
    /// let confirmed = Replicas { unconfirmed: Unconfirmed::Deny, ..Replicas::default() };
    /// let sms = Policy::all().limit("day", "quota 5/day").replicas(confirmed);
    /// ```
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.options.replicas = Some(replicas);
        self
    }

    /// Has all keys of the policy kept on one node of a store that spreads them over several, together with those of
    /// every policy that has the same tag, so that they can be [charged in one step](crate::Engine::ask_together). All of
    /// them are then as fast as one node is. A policy that gets another tag starts from nothing there.
    ///
    /// ```
    /// use tidegate::{Engine, Policy};
    ///
    /// let route = Policy::all().limit("", "1000/s").tagged("edge");
    /// let client = Policy::all().limit("", "100/min").tagged("edge");
    /// let engine = Engine::builder().policy("route", route).policy("client", client).build()?;
    /// # assert!(engine.check("route", "/search").now()?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tagged(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// How long an answer of the store may take, where that has a deadline; by default the store's own deadline. Taken
    /// as 1 ms at least and a minute at most.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::Policy;
    ///
    /// // A batch job would rather wait than be answered by this node alone.
    /// let exports = Policy::all().limit("", "5000/h").deadline(Duration::from_millis(500));
    /// ```
    pub fn deadline(mut self, deadline: Duration) -> Self {
        let (least, most) = (crate::deadline::MIN, crate::deadline::MAX);
        self.options.deadline = Some(deadline.clamp(least, most));
        self
    }

    /// Whether it is counted by the quorum of a [`RoutedStore`](crate::RoutedStore), which no single server can make forget;
    /// by default by its main store. Any other store counts it as ever.
    ///
    /// ```
    /// use tidegate::Policy;
    ///
    /// let payout = Policy::all().limit("", "fixed-window 10/day").quorum(true);
    /// assert!(payout.is_in_quorum());
    /// ```
    pub fn quorum(mut self, quorum: bool) -> Self {
        self.options.quorum = quorum;
        self
    }

    /// Whether a [quorum](Policy::quorum) is to count it.
    pub const fn is_in_quorum(&self) -> bool {
        self.options.quorum
    }

    /// The same under a tag that shares of it have as well, unless it has one.
    pub(crate) fn shared_as(self, tag: &str) -> Self {
        Self { tag: self.tag.or_else(|| Some(tag.to_owned())), is_shared: true, ..self }
    }

    /// The policy whose limit it [shares](Policy::share).
    ///
    /// ```
    /// # use tidegate::{Policy, Share};
    /// assert_eq!(Policy::share(Share::of("total", "tenant")).share_of(), Some("total"));
    /// assert_eq!(Policy::all().limit("", "5/h").share_of(), None);
    /// ```
    pub fn share_of(&self) -> Option<&str> {
        match &self.kind {
            Ok(Kind::Share(share)) => Some(&share.of),
            Ok(Kind::Limits { .. } | Kind::Shaper(_)) | Err(_) => None,
        }
    }

    /// Whether its limits count different identifiers, so that a store has to change several in one step.
    ///
    /// ```
    /// use tidegate::Policy;
    ///
    /// let plan = Policy::all().limit("second", "10/s").limit("day", "1000/day");
    /// assert!(!plan.counts_several_identifiers());
    /// let signup = Policy::all().limit_by("ip", "ip", "3/h").limit_by("domain", "email_domain", "50/h");
    /// assert!(signup.counts_several_identifiers());
    /// ```
    pub fn counts_several_identifiers(&self) -> bool {
        match &self.kind {
            Ok(Kind::Limits { members, .. }) => on_several_identifiers(members),
            Ok(Kind::Share(_)) => true,
            Ok(Kind::Shaper(_)) | Err(_) => false,
        }
    }

    /// Whether the policy is in shadow mode: it counts and reports what it would refuse, and refuses nothing, also if a
    /// key is [blocked](Override::Block) or the store fails; by default it is not.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let strict = Policy::all().limit("hour", "1/h").shadow(true);
    /// let engine = Engine::builder().policy("strict", strict).build()?;
    /// assert!(!engine.check("strict", "user-42").now()?.shadow_denied);
    /// let second = engine.check("strict", "user-42").now()?;
    /// assert!(second.decision.allowed() && second.shadow_denied);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.options.shadow = shadow;
        self
    }

    /// Enforces the policy for a part of all callers, and leaves the others in [shadow](Self::shadow): they are counted,
    /// reported and never refused. Who is in is a matter of a [fixed hash](Percent::includes) of the policy's name and of
    /// the identifier that its first limit counts, other than `global`. By default all are; a policy in shadow mode is
    /// enforced for nobody.
    ///
    /// ```
    /// # use tidegate::{Engine, Percent, Policy};
    /// let strict = Policy::all().limit("", "1/h").enforce("10%");
    /// let engine = Engine::builder().policy("strict", strict).build()?;
    /// let tenth: Percent = "10%".parse()?;
    /// for user in ["ann", "ben", "cem", "dag", "eva", "fay", "gil", "hal"] {
    ///     let _first = engine.check("strict", user).now()?;
    ///     let second = engine.check("strict", user).now()?;
    ///     assert_eq!(!second.decision.allowed(), tenth.includes("strict", user.as_bytes()));
    ///     assert_eq!(second.shadow_denied, second.decision.allowed());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enforce(mut self, percent: impl TryInto<Percent, Error: Into<PercentError>>) -> Self {
        match percent.try_into() {
            Ok(percent) => self.options.enforce = Some(percent),
            Err(error) => self.kind = self.kind.and(Err(PolicyProblem::Enforce(error.into()))),
        }
        self
    }
}

impl From<Limit> for Policy {
    fn from(limit: Limit) -> Self {
        Self::all().limit("", limit)
    }
}

macro_rules! policies_of_one_limit {
    ($($limit:ty),*) => {$(
        impl TryFrom<$limit> for Policy {
            type Error = LimitError;

            fn try_from(limit: $limit) -> Result<Self, LimitError> {
                Limit::try_from(limit).map(Self::from)
            }
        }
    )*};
}
policies_of_one_limit!(&str, &String, String, Rate);

/// Whether limits count different identifiers.
fn on_several_identifiers(members: &[Member]) -> bool {
    members.windows(2).any(|pair| pair[0].key != pair[1].key)
}
