//! What a single key gets instead of a policy.

use std::str::FromStr;

use tidegate_core::{Limit, LimitError};

use crate::engine::BindingLimit;

/// What one key gets instead of the policy.
///
/// ```
/// use tidegate::{Engine, Override, Policy};
///
/// let api = Policy::all()
///     .limit("hour", "5/h")
///     .with_override("partner-7", Override::Limit("5000/min".parse()?))
///     .with_override("monitor", Override::Allow)
///     .with_override("scraper", Override::Block);
/// let engine = Engine::builder().policy("api", api).build()?;
/// assert_eq!(engine.check("api", "partner-7").now()?.decision.limit(), 5000);
/// assert_eq!(engine.check("api", "monitor").now()?.limit, None); // no limit had to decide
/// assert_eq!(engine.check("api", "scraper").now()?.decision.retry_after(), None); // never
///
/// let more = Override::OneLimit { name: "day".into(), limit: "50/day".parse()? };
/// let plan = Policy::all().limit("hour", "5/h").limit("day", "9/day").with_override("partner-7", more);
/// let engine = Engine::builder().policy("plan", plan).build()?;
/// let answer = engine.check("plan", "partner-7").now()?;
/// assert_eq!((answer.binding, answer.decision.limit()), ("hour", 5)); // as it is; the day has 49 left
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Override {
    /// A limit of its own, in place of the policy's only one.
    Limit(Limit),
    /// A limit of its own in place of one of several. A key can have one for each of them.
    OneLimit {
        /// The name of the limit that it replaces.
        name: String,
        /// The key's own.
        limit: Limit,
    },
    /// Everything.
    Allow,
    /// Nothing.
    Block,
}

/// The override that holds for a key, of the policy or of run time.
#[derive(Clone, Debug)]
pub(crate) enum OverrideInForce<'a> {
    Limit(BindingLimit<'a>),
    Allow,
    Block,
}

impl<'a> From<&'a Override> for OverrideInForce<'a> {
    fn from(own: &'a Override) -> Self {
        match own {
            Override::Limit(limit) | Override::OneLimit { limit, .. } => {
                Self::Limit(BindingLimit::of_policy(limit))
            }
            Override::Allow => Self::Allow,
            Override::Block => Self::Block,
        }
    }
}

impl FromStr for Override {
    type Err = LimitError;

    /// `allow`, `block`, or a limit as [`Limit`] reads it.
    ///
    /// ```
    /// # use tidegate::{LimitError, Override};
    /// assert_eq!("allow".parse(), Ok(Override::Allow));
    /// assert_eq!("block".parse(), Ok(Override::Block));
    /// assert_eq!("5000/min".parse(), Ok(Override::Limit("5000/min".parse()?)));
    /// assert!("5000".parse::<Override>().is_err());
    /// # Ok::<(), LimitError>(())
    /// ```
    fn from_str(text: &str) -> Result<Self, LimitError> {
        match text {
            "allow" => Ok(Self::Allow),
            "block" => Ok(Self::Block),
            limit => limit.parse().map(Self::Limit),
        }
    }
}
