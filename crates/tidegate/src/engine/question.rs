//! What an engine is asked.

use tidegate_core::Limit;

use super::PolicyRef;
use super::error::CheckError;
use crate::clock::SystemClock;
use crate::policy::Compiled;

/// One question to an engine.
///
/// ```
/// use tidegate::{Check, Engine, Key, Op, Policy};
///
/// let signup = Policy::all().limit_by("ip", "ip", "3/h").limit_by("mail", "domain", "50/h");
/// let engine = Engine::builder().policy("signup", signup).build()?;
/// let keys: [(&str, &[u8]); 2] = [("ip", b"203.0.113.9"), ("domain", b"example.org")];
/// let check = Check { policy: "signup", key: Key::Named(&keys), cost: 1 };
/// assert_eq!(engine.ask(&check, Op::Peek).now()?.decision.remaining(), 2);
/// assert!(engine.ask(&check, Op::Take).now()?.decision.allowed());
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

/// One of several questions that are asked [together](crate::Engine::decide_together), about a policy that was looked up
/// already.
///
/// ```
/// use tidegate::{Engine, Key, Limit, Op, Question};
///
/// let engine = Engine::builder().policy("route", "100/s").policy("client", "1/h").build()?;
/// let contract: Limit = "5/h".parse()?;
/// let route = Question::new(engine.policy_ref("route")?, Key::One(b"/search"), 1);
/// let client = Question::new(engine.policy_ref("client")?, Key::One(b"user-42"), 3);
/// let client = Question { limit: Some(&contract), ..client };
/// let together = engine.decide_together(&[route, client], Op::Take).now()?;
/// assert_eq!(together.answers[1].decision.remaining(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Question<'e, 'q, C = SystemClock> {
    /// The policy.
    pub policy: PolicyRef<'e, C>,
    /// Who is asking.
    pub key: Key<'q>,
    /// What to spend.
    pub cost: u64,
    /// A limit instead of the only one of the policy. Of two limits for one key the tighter holds for both; where
    /// neither is, that is an error.
    pub limit: Option<&'e Limit>,
}

impl<'e, 'q, C> Question<'e, 'q, C> {
    /// By the limits of the policy.
    pub const fn new(policy: PolicyRef<'e, C>, key: Key<'q>, cost: u64) -> Self {
        Self { policy, key, cost, limit: None }
    }
}

impl<C> Clone for Question<'_, '_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Question<'_, '_, C> {}

/// Who is asking: one identifier, or several by name.
///
/// ```
/// use tidegate::{Check, CheckError, Engine, Key, Op, Policy};
///
/// let engine = Engine::builder()
///     .policy("api", "5/h")
///     .policy("signup", Policy::all().limit_by("ip", "ip", "3/h"))
///     .build()?;
/// let ask = |policy, key| engine.ask(&Check { policy, key, cost: 1 }, Op::Take).now();
/// assert!(ask("api", Key::One(b"user-42"))?.decision.allowed());
/// assert!(ask("signup", Key::Named(&[("ip", b"203.0.113.9")]))?.decision.allowed());
/// // Which identifier this is, the limit cannot know.
/// assert!(matches!(ask("signup", Key::One(b"user-42")), Err(CheckError::MissingKey { .. })));
///
/// // `global` is the same for everybody, so that nobody gives it.
/// let both = Policy::all().limit("user", "5/h").limit_by("everybody", "global", "2/h");
/// let engine = Engine::builder().policy("both", both).build()?;
/// let left = |key| engine.check("both", key).now().map(|answer| answer.decision.allowed());
/// assert_eq!((left("ann")?, left("bob")?, left("cid")?), (true, true, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// The only identifier.
    One(&'a [u8]),
    /// Identifiers by name, for policies whose limits count different ones.
    Named(&'a [(&'a str, &'a [u8])]),
}

/// The name of the identifier that is the same for everybody, and its value: whatever is given for it does not matter,
/// or a caller could get a budget of its own.
pub(crate) const GLOBAL: &str = "global";

impl<'a> Key<'a> {
    /// The identifier a limit counts. The only one is also the tenant of a [share](crate::Policy::share), whatever that
    /// calls it.
    #[inline]
    pub(crate) fn find(
        &self,
        policy: &Compiled,
        name: Option<&str>,
    ) -> Result<&'a [u8], CheckError> {
        if let (Self::One(only), None) = (self, name) {
            return Ok(only);
        }
        self.find_named(policy, name)
    }

    fn find_named(&self, policy: &Compiled, name: Option<&str>) -> Result<&'a [u8], CheckError> {
        let tenant = || match self {
            Self::One(only) => policy.share.as_ref().map(|_| *only),
            Self::Named(_) => None,
        };
        self.get(name).or_else(tenant).ok_or_else(|| CheckError::MissingKey {
            policy: policy.name(),
            key: name.unwrap_or("key").to_owned(),
        })
    }

    /// The same, if it is there.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&'a [u8]> {
        match (self, name) {
            (_, Some(GLOBAL)) => Some(GLOBAL.as_bytes()),
            (Self::One(key), None) => Some(*key),
            (Self::One(_), Some(_)) => None,
            (Self::Named([(_, only)]), None) => Some(*only),
            (Self::Named(keys), None) => {
                let mut own = keys.iter().filter(|(name, _)| *name != GLOBAL);
                own.next().filter(|_| own.next().is_none()).map(|(_, only)| *only)
            }
            (Self::Named(keys), Some(name)) => {
                keys.iter().find(|(given, _)| *given == name).map(|(_, key)| *key)
            }
        }
    }
}
