//! The engine: named policies over one store. Every door goes through it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, LeakyBucket, Limit, LimitError, Mode, Reservation, Verdict};

use crate::clock::{Clock, SystemClock};
use crate::permit::{Acquired, Permit};
use crate::policy::{Compiled, CompiledKind, Member, Override, Policy, PolicyProblem};
use crate::store::memory::MemoryStore;
use crate::store::{Ask, KeyedLimit, Op};

/// Named policies over one store. Clones share everything.
///
/// ```
/// use tidegate::{Engine, Policy};
///
/// let engine = Engine::builder()
///     .policy("api", "100/min burst 20")
///     .policy("plan", Policy::all().limit("second", "10/s").limit("day", "fixed-window 10000/day"))
///     .build()?;
///
/// let answer = engine.check("plan", "user-42")?;
/// assert!(answer.decision.allowed());
/// assert_eq!(answer.binding, "second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Engine<C = SystemClock> {
    shared: Arc<Shared<C>>,
}

#[derive(Debug)]
struct Shared<C> {
    store: Arc<MemoryStore>,
    clock: C,
    policies: BTreeMap<String, Compiled>,
}

/// One question to an engine.
///
/// ```
/// use tidegate::{Check, Engine, Key, Op, Policy};
///
/// let signup = Policy::all().limit_by("ip", "ip", "3/h").limit_by("mail", "domain", "50/h");
/// let engine = Engine::builder().policy("signup", signup).build()?;
/// let keys: [(&str, &[u8]); 2] = [("ip", b"203.0.113.9"), ("domain", b"example.org")];
/// let check = Check { policy: "signup", key: Key::Named(&keys), cost: 1 };
/// assert_eq!(engine.ask(&check, Op::Peek)?.decision.remaining(), 2);
/// assert!(engine.ask(&check, Op::Take)?.decision.allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// The policy's name.
    pub policy: &'a str,
    /// Who is asking.
    pub key: Key<'a>,
    /// What to spend, or to give back.
    pub cost: u64,
}

/// Who is asking: one identifier, or several by name.
///
/// ```
/// use tidegate::{Check, CheckError, Engine, Key, Op, Policy};
///
/// let engine = Engine::builder()
///     .policy("api", "5/h")
///     .policy("signup", Policy::all().limit_by("ip", "ip", "3/h"))
///     .build()?;
/// let ask = |policy, key| engine.ask(&Check { policy, key, cost: 1 }, Op::Take);
/// assert!(ask("api", Key::One(b"user-42"))?.decision.allowed());
/// assert!(ask("signup", Key::Named(&[("ip", b"203.0.113.9")]))?.decision.allowed());
/// // Which identifier this is, the limit cannot know.
/// assert!(matches!(ask("signup", Key::One(b"user-42")), Err(CheckError::MissingKey { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// The only identifier.
    One(&'a [u8]),
    /// Identifiers by name, for policies whose limits count different ones.
    Named(&'a [(&'a str, &'a [u8])]),
}

/// An engine's answer.
///
/// ```
/// use tidegate::{Engine, Policy, Source};
///
/// let plan = Policy::all().limit("burst", "10/s").limit("day", "fixed-window 3/day");
/// let engine = Engine::builder().policy("plan", plan).build()?;
/// let answer = engine.check("plan", "user-42")?;
/// assert!(answer.decision.allowed());
/// assert_eq!((answer.policy, answer.binding), ("plan", "day"));
/// assert!(answer.limit.is_some_and(|limit| limit.units() == 3));
/// assert_eq!(answer.source, Source::Store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer<'a> {
    /// The decision of the limit that binds, which is the whole's.
    pub decision: Decision,
    /// The policy's name.
    pub policy: &'a str,
    /// The name of the limit that binds; the policy's name where its only limit has none.
    pub binding: &'a str,
    /// The limit that binds; `None` where an override allowed or blocked without one.
    pub limit: Option<&'a Limit>,
    /// Who decided.
    pub source: Source,
}

/// Who made a decision.
///
/// ```
/// use tidegate::{Engine, Source};
///
/// let engine = Engine::builder().policy("api", "5/h").build()?;
/// let source = engine.check("api", "user-42")?.source;
/// assert_eq!(source, Source::Store);
/// assert_eq!(source.as_str(), "store");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
}

impl Source {
    /// The source's name, as doors report it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
        }
    }
}

/// A question that has no answer.
///
/// ```
/// use tidegate::{Check, CheckError, Engine, Key, Policy};
///
/// let engine = Engine::builder()
///     .policy("signup", Policy::all().limit_by("ip", "ip", "3/h"))
///     .policy("export", Policy::shaper("2/s max-wait 5s"))
///     .policy("report", "concurrency 2")
///     .build()?;
/// let error = |policy| engine.check(policy, "user-42").err();
/// assert_eq!(error("sign-up"), Some(CheckError::UnknownPolicy("sign-up".into())));
/// let missing = CheckError::MissingKey { policy: "signup".into(), key: "ip".into() };
/// assert_eq!(error("signup"), Some(missing));
/// assert_eq!(error("export"), Some(CheckError::Shapes("export".into())));
/// assert_eq!(error("report"), Some(CheckError::NeedsAcquire("report".into())));
///
/// let check = Check { policy: "report", key: Key::One(b"user-42"), cost: 1 };
/// assert_eq!(engine.reserve(&check), Err(CheckError::DoesNotShape("report".into())));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CheckError {
    /// There is no policy of this name.
    UnknownPolicy(String),
    /// A limit of the policy counts an identifier that was not given.
    MissingKey {
        /// The policy's name.
        policy: String,
        /// The identifier's name, or `key` for the only one.
        key: String,
    },
    /// The policy delays: ask [`Engine::reserve`].
    Shapes(String),
    /// The policy decides: ask [`Engine::check`].
    DoesNotShape(String),
    /// The policy limits concurrency: ask [`Engine::acquire`].
    NeedsAcquire(String),
}

/// A policy that could not be built.
///
/// ```
/// use tidegate::{BuildError, Engine, LimitError, PolicyProblem};
///
/// let built = Engine::builder().policy("api", "100/min").policy("login", "0/h").build();
/// let problem = PolicyProblem::Limit(LimitError::ZeroLimit);
/// assert_eq!(built.err(), Some(BuildError { policy: "login".to_owned(), problem }));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildError {
    /// The policy's name.
    pub policy: String,
    /// What is wrong with it.
    pub problem: PolicyProblem,
}

/// Builds an [`Engine`].
///
/// ```
/// use tidegate::{Engine, ManualClock, MemoryStore};
///
/// let engine = Engine::builder()
///     .store(MemoryStore::with_max_bytes(16 << 20))
///     .clock(ManualClock::default())
///     .policy("api", "100/min burst 20")
///     .policy("login", "sliding-log 5/h")
///     .build()?;
/// assert_eq!(engine.check("login", "user-42")?.decision.remaining(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder builds nothing by itself"]
pub struct EngineBuilder<C = SystemClock> {
    store: Option<Arc<MemoryStore>>,
    clock: C,
    policies: Vec<(String, Result<Policy, LimitError>)>,
}

impl<C> Clone for Engine<C> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl Engine {
    /// An engine to be filled with policies.
    ///
    /// ```
    /// # use tidegate::{CheckError, Engine};
    /// let empty = Engine::builder().build()?;
    /// assert_eq!(empty.check("api", "user-42"), Err(CheckError::UnknownPolicy("api".into())));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn builder() -> EngineBuilder {
        EngineBuilder { store: None, clock: SystemClock, policies: Vec::new() }
    }
}

impl<C: Clock> EngineBuilder<C> {
    /// Keeps state in a store that others may share.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use tidegate::{Engine, MemoryStore};
    /// let store = Arc::new(MemoryStore::default());
    /// let before = Engine::builder().store(store.clone()).policy("api", "1/h").build()?;
    /// assert!(before.check("api", "user-42")?.decision.allowed());
    /// // Built anew with other policies, as on a reload: what was spent stays spent.
    /// let after = Engine::builder().store(store).policy("api", "1/day").build()?;
    /// assert!(!after.check("api", "user-42")?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(mut self, store: impl Into<Arc<MemoryStore>>) -> Self {
        self.store = Some(store.into());
        self
    }

    /// Takes time from another clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Engine, ManualClock};
    /// let clock = ManualClock::default();
    /// let engine = Engine::builder().clock(clock.clone()).policy("api", "1/h").build()?;
    /// assert!(engine.check("api", "user-42")?.decision.allowed());
    /// clock.advance(Duration::from_secs(3600)); // a test need not wait
    /// assert!(engine.check("api", "user-42")?.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock<D: Clock>(self, clock: D) -> EngineBuilder<D> {
        EngineBuilder { store: self.store, clock, policies: self.policies }
    }

    /// Adds a policy: a limit, the text of one, or a [`Policy`]. A name that is there already is replaced.
    ///
    /// ```
    /// # use tidegate::{Engine, Limit, Policy};
    /// let limit: Limit = "5/h".parse()?;
    /// let engine = Engine::builder()
    ///     .policy("text", "5/h")
    ///     .policy("limit", limit)
    ///     .policy("policy", Policy::any().limit("hour", "5/h").limit("day", "20/day"))
    ///     .build()?;
    /// assert!(engine.policies().map(|policy| policy.name()).eq(["limit", "policy", "text"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(
        mut self,
        name: impl Into<String>,
        policy: impl TryInto<Policy, Error: Into<LimitError>>,
    ) -> Self {
        self.policies.push((name.into(), policy.try_into().map_err(Into::into)));
        self
    }

    /// The engine; an error for the first policy that makes no sense.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let built = Engine::builder().policy("api", "100/fortnight").build();
    /// assert!(built.is_err_and(|error| error.policy == "api"));
    /// ```
    pub fn build(self) -> Result<Engine<C>, BuildError> {
        let mut policies = BTreeMap::new();
        for (name, policy) in self.policies {
            let compiled =
                policy.map_err(PolicyProblem::Limit).and_then(|policy| policy.compile(&name));
            let compiled =
                compiled.map_err(|problem| BuildError { policy: name.clone(), problem })?;
            policies.insert(name, compiled);
        }
        let store = self.store.unwrap_or_default();
        Ok(Engine { shared: Arc::new(Shared { store, clock: self.clock, policies }) })
    }
}

impl<C: Clock> Engine<C> {
    /// Spends one unit of `key` under a policy, if there is one.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("login", "1/h").build()?;
    /// assert!(engine.check("login", "user-42")?.decision.allowed());
    /// assert!(!engine.check("login", "user-42")?.decision.allowed()); // a refusal is no error
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, policy: &str, key: impl AsRef<[u8]>) -> Result<Answer<'_>, CheckError> {
        self.ask(&Check { policy, key: Key::One(key.as_ref()), cost: 1 }, Op::Take)
    }

    /// Answers a question: takes, peeks, refunds or resets, over all limits of the policy in one atomic step.
    ///
    /// ```
    /// # use tidegate::{Check, Engine, Key, Op};
    /// let engine = Engine::builder().policy("api", "10/h").build()?;
    /// let check = Check { policy: "api", key: Key::One(b"user-42"), cost: 4 };
    /// assert_eq!(engine.ask(&check, Op::Take)?.decision.remaining(), 6);
    /// assert_eq!(engine.ask(&check, Op::Peek)?.decision.remaining(), 2); // if it were taken
    /// assert_eq!(engine.ask(&check, Op::Refund)?.decision.remaining(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask(&self, check: &Check<'_>, op: Op) -> Result<Answer<'_>, CheckError> {
        let (name, policy) = self.can_ask(check.policy, op)?;
        let shared = &*self.shared;
        decide(name, policy, check, op, |ask| shared.store.answer(ask, shared.clock.now()))
    }

    /// Whether a question has an answer, without asking it: for those who want to charge several or none.
    ///
    /// ```
    /// # use tidegate::{Check, CheckError, Engine, Key, Op};
    /// let engine = Engine::builder().policy("api", "10/h").build()?;
    /// let check = |policy| Check { policy, key: Key::One(b"user-42"), cost: 1 };
    /// let batch = [check("api"), check("apj")];
    /// let valid = batch.iter().try_for_each(|check| engine.validate(check, Op::Take));
    /// assert_eq!(valid, Err(CheckError::UnknownPolicy("apj".into()))); // before anything is spent
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn validate(&self, check: &Check<'_>, op: Op) -> Result<(), CheckError> {
        let (name, policy) = self.can_ask(check.policy, op)?;
        if matches!(policy.kind, CompiledKind::Shaper(..)) {
            return Err(CheckError::Shapes(name.to_owned()));
        }
        let mut keys = policy.members().iter().map(|(_, member)| member.key.as_deref());
        keys.try_for_each(|key| check.key.find(name, key).map(drop))
    }

    /// Like [`Engine::check`], for policies that limit concurrency: places are given back when the permit is
    /// dropped, or when their lease ends.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("export", "concurrency 1 lease 30s").build()?;
    /// let held = engine.acquire("export", "user-42")?;
    /// assert!(held.permit.is_some());
    /// assert!(!engine.acquire("export", "user-42")?.answer.decision.allowed());
    /// drop(held);
    /// assert!(engine.acquire("export", "user-42")?.answer.decision.allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire(
        &self,
        policy: &str,
        key: impl AsRef<[u8]>,
    ) -> Result<Acquired<Answer<'_>>, CheckError> {
        let check = Check { policy, key: Key::One(key.as_ref()), cost: 1 };
        let (name, policy) = self.policy(check.policy)?;
        let Shared { store, clock, .. } = &*self.shared;
        let mut held = Vec::new();
        let answer = decide(name, policy, &check, Op::Take, |ask| {
            let mut granted = Vec::new();
            let verdict = store.answer_many(ask, clock.now(), &mut granted);
            held.extend(granted.into_iter().map(|(index, permit)| {
                let keyed = &ask.limits[index];
                (store.fingerprint(keyed.scope, keyed.key), permit.id)
            }));
            verdict
        })?;
        let permit = answer.decision.allowed().then(|| Permit::new(store.clone(), held));
        Ok(Acquired { answer, permit })
    }

    /// Takes a place in a shaper's queue. The caller waits.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Check, Engine, Key, ManualClock, Policy};
    /// let engine = Engine::builder()
    ///     .clock(ManualClock::default())
    ///     .policy("export", Policy::shaper("2/s max-wait 5s"))
    ///     .build()?;
    /// let check = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
    /// assert_eq!(engine.reserve(&check)?.delay(), Duration::ZERO);
    /// assert_eq!(engine.reserve(&check)?.delay(), Duration::from_millis(500));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserve(&self, check: &Check<'_>) -> Result<Reservation, CheckError> {
        let (name, policy) = self.policy(check.policy)?;
        let CompiledKind::Shaper(scope, limit) = &policy.kind else {
            return Err(CheckError::DoesNotShape(name.to_owned()));
        };
        let key = check.key.find(name, None)?;
        match policy.instead_for(check.key) {
            Some(Override::Allow) => return Ok(Reservation::unlimited()),
            Some(Override::Block) => return Ok(Reservation::blocked()),
            Some(Override::Limit(_)) | None => {}
        }
        let Shared { store, clock, .. } = &*self.shared;
        Ok(store.reserve(store.fingerprint(*scope, key), limit, clock.now(), check.cost).0)
    }

    /// The policies by name, in order.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("login", "5/h").policy("api", "100/min").build()?;
    /// let names: Vec<&str> = engine.policies().map(|policy| policy.name()).collect();
    /// assert_eq!(names, ["api", "login"]);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn policies(&self) -> impl Iterator<Item = PolicyView<'_>> {
        self.shared.policies.iter().map(|(name, policy)| PolicyView { name, policy })
    }

    /// Where state is kept.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "100/min").build()?;
    /// engine.check("api", "user-42")?;
    /// assert_eq!(engine.store().stats().keys, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store(&self) -> &Arc<MemoryStore> {
        &self.shared.store
    }

    /// The policy, if it can be asked to do `op`: a check could not give back a place that it took.
    fn can_ask(&self, name: &str, op: Op) -> Result<(&str, &Compiled), CheckError> {
        let (name, policy) = self.policy(name)?;
        let concurrency = |(_, member): &(_, Member)| matches!(member.limit, Limit::Concurrency(_));
        if op == Op::Take && policy.members().iter().any(concurrency) {
            return Err(CheckError::NeedsAcquire(name.to_owned()));
        }
        Ok((name, policy))
    }

    fn policy(&self, name: &str) -> Result<(&str, &Compiled), CheckError> {
        let found = self.shared.policies.get_key_value(name);
        found
            .map(|(name, policy)| (name.as_str(), policy))
            .ok_or_else(|| CheckError::UnknownPolicy(name.to_owned()))
    }
}

/// Puts the question to `answer` as one ask over all limits of the policy.
fn decide<'e>(
    name: &'e str,
    policy: &'e Compiled,
    check: &Check<'_>,
    op: Op,
    answer: impl FnOnce(&Ask<'_>) -> Option<Verdict>,
) -> Result<Answer<'e>, CheckError> {
    let CompiledKind::Limits { mode, members } = &policy.kind else {
        return Err(CheckError::Shapes(name.to_owned()));
    };
    let own = match policy.instead_for(check.key) {
        None => None,
        Some(Override::Limit(limit)) => Some(limit),
        Some(Override::Allow) => return Ok(without_limit(name, Decision::unlimited())),
        Some(Override::Block) => return Ok(without_limit(name, Decision::blocked())),
    };
    let unknown = || CheckError::UnknownPolicy(name.to_owned());
    let limit_of = |member: &'e Member| own.unwrap_or(&member.limit);
    let (scope, first) = members.first().ok_or_else(unknown)?;
    let mut limits =
        [KeyedLimit { scope: *scope, key: &[], limit: limit_of(first) }; Ask::MAX_LIMITS];
    for (keyed, (scope, member)) in limits.iter_mut().zip(members) {
        let key = check.key.find(name, member.key.as_deref())?;
        *keyed = KeyedLimit { scope: *scope, key, limit: limit_of(member) };
    }
    let limits = &limits[..members.len()];
    let verdict = answer(&Ask { mode: *mode, limits, cost: check.cost, op }).ok_or_else(unknown)?;
    let member = &members[verdict.binding].1;
    Ok(Answer {
        decision: verdict.decision,
        policy: name,
        binding: if member.name.is_empty() { name } else { &member.name },
        limit: Some(limit_of(member)),
        source: Source::Store,
    })
}

fn without_limit(policy: &str, decision: Decision) -> Answer<'_> {
    Answer { decision, policy, binding: policy, limit: None, source: Source::Store }
}

/// A policy as an engine holds it, to be shown.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Engine, Mode, Policy, PolicyView};
///
/// let engine = Engine::builder()
///     .policy("export", Policy::shaper("2/s max-wait 5s"))
///     .policy("plan", Policy::all().limit("second", "10/s").limit("day", "fixed-window 9/day"))
///     .build()?;
/// let views: Vec<PolicyView> = engine.policies().collect();
/// assert_eq!((views[0].name(), views[0].mode()), ("export", None));
/// assert!(views[0].shaper().is_some_and(|shaper| shaper.max_wait() == Duration::from_secs(5)));
/// assert_eq!((views[1].name(), views[1].mode()), ("plan", Some(Mode::All)));
/// assert!(views[1].members().map(|member| member.limit.units()).eq([10, 9]));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PolicyView<'a> {
    name: &'a str,
    policy: &'a Compiled,
}

impl<'a> PolicyView<'a> {
    /// The policy's name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// How its limits make one answer; `None` for a shaper.
    pub const fn mode(&self) -> Option<Mode> {
        match &self.policy.kind {
            CompiledKind::Limits { mode, .. } => Some(*mode),
            CompiledKind::Shaper(..) => None,
        }
    }

    /// Its limits, in declared order; none for a shaper.
    pub fn members(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        self.policy.members().iter().map(|(_, member)| member)
    }

    /// The shaper, if it is one.
    pub const fn shaper(&self) -> Option<&'a LeakyBucket> {
        match &self.policy.kind {
            CompiledKind::Shaper(_, limit) => Some(limit),
            CompiledKind::Limits { .. } => None,
        }
    }
}

impl<'a> Key<'a> {
    /// The identifier a limit counts.
    fn find(&self, policy: &str, name: Option<&str>) -> Result<&'a [u8], CheckError> {
        let found = match (self, name) {
            (Self::One(key), None) => Some(*key),
            (Self::One(_), Some(_)) => None,
            (Self::Named(keys), None) => match keys {
                [(_, only)] => Some(*only),
                _ => None,
            },
            (Self::Named(keys), Some(name)) => {
                keys.iter().find(|(given, _)| *given == name).map(|(_, key)| *key)
            }
        };
        found.ok_or_else(|| CheckError::MissingKey {
            policy: policy.to_owned(),
            key: name.unwrap_or("key").to_owned(),
        })
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPolicy(name) => write!(f, "no policy is called `{}`", name.escape_debug()),
            Self::MissingKey { policy, key } => {
                write!(f, "policy `{policy}` counts by `{key}`, which was not given")
            }
            Self::Shapes(policy) => {
                write!(
                    f,
                    "policy `{policy}` is a leaky bucket: it delays, so reserve instead of check"
                )
            }
            Self::DoesNotShape(policy) => {
                write!(f, "policy `{policy}` is no leaky bucket: check instead of reserve")
            }
            Self::NeedsAcquire(policy) => {
                write!(f, "policy `{policy}` limits concurrency: acquire instead of check")
            }
        }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy `{}`: {}", self.policy.escape_debug(), self.problem)
    }
}

impl std::error::Error for CheckError {}
impl std::error::Error for BuildError {}
