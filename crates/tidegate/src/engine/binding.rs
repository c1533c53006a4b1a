//! The limit that an answer is about.

use std::ops::Deref;
use std::sync::Arc;

use tidegate_core::Limit;

/// The [`Limit`] that binds an answer: one of the policy, or one that the key has instead.
///
/// ```
/// use tidegate::{BindingLimit, Engine};
///
/// let engine = Engine::builder().policy("api", "100/min burst 20").build()?;
/// let answer = engine.check("api", "user-42").now()?;
/// let limit: BindingLimit = answer.limit.expect("no override decided");
/// assert_eq!((limit.units(), limit.ceiling()), (100, 20));
/// assert_eq!(*limit, "100/min burst 20".parse()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BindingLimit<'a>(Whose<'a>);

#[derive(Clone, Debug)]
enum Whose<'a> {
    /// It lives as long as the engine.
    Engine(&'a Limit),
    /// It was set at run time, and may be gone by now.
    Table(Arc<Limit>),
}

impl<'a> BindingLimit<'a> {
    pub(crate) const fn of_policy(limit: &'a Limit) -> Self {
        Self(Whose::Engine(limit))
    }

    pub(crate) const fn shared(limit: Arc<Limit>) -> Self {
        Self(Whose::Table(limit))
    }
}

impl Deref for BindingLimit<'_> {
    type Target = Limit;

    fn deref(&self) -> &Limit {
        match &self.0 {
            Whose::Engine(limit) => limit,
            Whose::Table(limit) => limit,
        }
    }
}

/// Equal where the limits are, whoever keeps them.
impl PartialEq for BindingLimit<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for BindingLimit<'_> {}
