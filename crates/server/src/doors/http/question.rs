//! From a well-formed request to a question that makes sense: the second step of reading what was sent.

use tidegate::{Check, Key};

use super::problem::Problem;
use super::request::{BatchRequest, Named, Object, Request};

/// A question to the engine.
pub(super) struct Question<'a> {
    policy: &'a str,
    who: Who<'a>,
    cost: u64,
}

enum Who<'a> {
    One(&'a str),
    Named(Vec<(&'a str, &'a [u8])>),
}

impl Question<'_> {
    /// The question, as the engine takes it.
    pub(super) fn check(&self) -> Check<'_> {
        let key = match &self.who {
            Who::One(key) => Key::One(key.as_bytes()),
            Who::Named(keys) => Key::Named(keys),
        };
        Check { policy: self.policy, key, cost: self.cost }
    }
}

impl Request<'_> {
    /// Checks what the types alone cannot say.
    pub(super) fn question(&self) -> Result<Question<'_>, Problem> {
        let policy = self.policy.as_ref().ok_or_else(|| {
            Problem::bad_field("policy", "is missing: give the name of one of GET /v1/policies")
        })?;
        let who = match (&self.key, &self.keys) {
            (Some(key), None) if key.0.is_empty() => {
                return Err(Problem::bad_field("key", "is empty: whoever is limited needs a name"));
            }
            (Some(key), None) => Who::One(&key.0),
            (None, Some(keys)) => Who::Named(named(keys)?),
            (None, None) => {
                return Err(Problem::bad_field("key", "is missing: give `key`, or `keys` by name"));
            }
            (Some(_), Some(_)) => {
                return Err(Problem::bad_field(
                    "keys",
                    "and `key` are both given: give one of them",
                ));
            }
        };
        Ok(Question { policy: &policy.0, who, cost: self.cost.0 })
    }
}

impl BatchRequest<'_> {
    /// Checks every element.
    pub(super) fn questions(&self) -> Result<Vec<Question<'_>>, Problem> {
        let requests = self.checks.0.iter().enumerate();
        requests
            .map(|(index, Object(request))| {
                request.question().map_err(|problem| problem.within_batch(index))
            })
            .collect()
    }
}

fn named<'a>(keys: &'a Named<'_>) -> Result<Vec<(&'a str, &'a [u8])>, Problem> {
    if keys.0.is_empty() {
        return Err(Problem::bad_field("keys", "is empty: give at least one"));
    }
    if let Some((name, _)) = keys.0.iter().find(|(_, value)| value.0.is_empty()) {
        return Err(Problem::bad_field(&format!("keys.{}", name.0), "is empty"));
    }
    Ok(keys.0.iter().map(|(name, value)| (&*name.0, value.0.as_bytes())).collect())
}
