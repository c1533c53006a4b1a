//! From a well-formed request to a question that makes sense: the second step of reading what was sent.

use tidegate::{Key, Op};

use super::Problem;
use super::request::{BatchRequest, Named, Object, Request};
use crate::service::{Call, Question, Unanswered};

/// A question about a policy, by its name.
pub(crate) struct AskedCheck<'a> {
    pub(crate) policy: &'a str,
    pub(crate) cost: u64,
    who: Who<'a>,
}

enum Who<'a> {
    One(&'a str),
    Named(Vec<(&'a str, &'a [u8])>),
}

impl AskedCheck<'_> {
    pub(crate) fn key(&self) -> Key<'_> {
        match &self.who {
            Who::One(key) => Key::One(key.as_bytes()),
            Who::Named(keys) => Key::Named(keys),
        }
    }

    /// The question of a batch, if it has an answer.
    pub(crate) fn in_batch<'s>(&self, call: &Call<'s>) -> Result<Question<'s, '_>, Unanswered> {
        let policy = call.lookup(self.policy)?;
        let question = Question::new(policy, self.key(), self.cost, Op::Take);
        call.validate(&question).map(|()| question)
    }
}

impl Request<'_> {
    /// Checks what the types alone cannot say.
    pub(crate) fn question(&self) -> Result<AskedCheck<'_>, Problem> {
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
        Ok(AskedCheck { policy: &policy.0, who, cost: self.cost.0 })
    }
}

impl BatchRequest<'_> {
    /// Checks every element.
    pub(crate) fn questions(&self) -> Result<Vec<AskedCheck<'_>>, Problem> {
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
