//! What an engine is asked.

use super::error::CheckError;

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
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Key<'a> {
    /// The only identifier.
    One(&'a [u8]),
    /// Identifiers by name, for policies whose limits count different ones.
    Named(&'a [(&'a str, &'a [u8])]),
}

impl<'a> Key<'a> {
    /// The identifier a limit counts.
    pub(super) fn find(&self, policy: &str, name: Option<&str>) -> Result<&'a [u8], CheckError> {
        self.get(name).ok_or_else(|| CheckError::MissingKey {
            policy: policy.to_owned(),
            key: name.unwrap_or("key").to_owned(),
        })
    }

    /// The same, if it is there.
    pub(crate) fn get(&self, name: Option<&str>) -> Option<&'a [u8]> {
        match (self, name) {
            (Self::One(key), None) => Some(*key),
            (Self::One(_), Some(_)) => None,
            (Self::Named(keys), None) => match keys {
                [(_, only)] => Some(*only),
                _ => None,
            },
            (Self::Named(keys), Some(name)) => {
                keys.iter().find(|(given, _)| *given == name).map(|(_, key)| *key)
            }
        }
    }
}
