//! Turns a decoded request into a checked question: the second step of parsing.

use tidegate::{Key, Op};

use super::Problem;
use super::request::{BatchRequest, NamedKeys, Object, Request};
use crate::service::{Call, Question, Unanswered};

/// A check of a policy, by its name.
pub(crate) struct ParsedCheck<'a> {
    pub(crate) policy: &'a str,
    pub(crate) cost: u64,
    key: ParsedKey<'a>,
}

enum ParsedKey<'a> {
    One(&'a str),
    Named(Vec<(&'a str, &'a [u8])>),
}

impl ParsedCheck<'_> {
    pub(crate) fn key(&self) -> Key<'_> {
        match &self.key {
            ParsedKey::One(key) => Key::One(key.as_bytes()),
            ParsedKey::Named(keys) => Key::Named(keys),
        }
    }

    /// The question of one element of a batch.
    pub(crate) fn in_batch<'s>(&self, call: &Call<'s>) -> Result<Question<'s, '_>, Unanswered> {
        let policy = call.lookup(self.policy)?;
        let question = Question::new(policy, self.key(), self.cost, Op::Take);
        question.validate().map(|()| question)
    }
}

impl Request<'_> {
    /// Validates what the types cannot express.
    pub(crate) fn question(&self) -> Result<ParsedCheck<'_>, Problem> {
        let policy = self.policy.as_ref().ok_or_else(|| {
            Problem::bad_field("policy", "is missing: give the name of one of GET /v1/policies")
        })?;
        let key = match (&self.key, &self.keys) {
            (Some(one), None) if one.0.is_empty() => {
                return Err(Problem::bad_field("key", "is empty: give the name of the caller"));
            }
            (Some(one), None) => ParsedKey::One(&one.0),
            (None, Some(keys)) => ParsedKey::Named(named(keys)?),
            // The policy knows whether it needs one: not if all of its limits count by `global`.
            (None, None) => ParsedKey::Named(Vec::new()),
            (Some(_), Some(_)) => {
                return Err(Problem::bad_field(
                    "keys",
                    "and `key` are both given: give one of them",
                ));
            }
        };
        Ok(ParsedCheck { policy: &policy.0, key, cost: self.cost.0 })
    }
}

impl BatchRequest<'_> {
    /// Validates every element.
    pub(crate) fn questions(&self) -> Result<Vec<ParsedCheck<'_>>, Problem> {
        let requests = self.checks.0.iter().enumerate();
        requests
            .map(|(index, Object(request))| {
                request.question().map_err(|problem| problem.within_batch(index))
            })
            .collect()
    }
}

fn named<'a>(keys: &'a NamedKeys<'_>) -> Result<Vec<(&'a str, &'a [u8])>, Problem> {
    if keys.0.is_empty() {
        return Err(Problem::bad_field("keys", "is empty: give at least one"));
    }
    if let Some((name, _)) = keys.0.iter().find(|(_, value)| value.0.is_empty()) {
        return Err(Problem::bad_field(&format!("keys.{}", name.0), "is empty"));
    }
    Ok(keys.0.iter().map(|(name, value)| (&*name.0, value.0.as_bytes())).collect())
}
