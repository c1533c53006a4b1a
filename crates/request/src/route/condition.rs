//! Conditions on what a request carries: headers, cookies and parameters of the query.

use std::fmt;

use tidegate_core::Wildcard;

use super::{BadMatch, Match};
use crate::key::Part;
use crate::path::component;
use crate::{AmbiguousRequest, ClientRequest, MatchedRoute};

/// All of them have to hold.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Conditions(Vec<Condition>);

/// A part of a request has a value like this one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Condition {
    part: Part,
    /// For the name of the route: `header:x-plan=pro`.
    written: String,
    /// The pattern in the spelling in which values are read.
    spelling: String,
    value: Wildcard,
}

/// What was read from one request. Routes ask for the same parts, and each of them is searched for in the whole head.
pub(super) struct Values<'s, 'r> {
    request: &'r ClientRequest<'r>,
    read: Vec<(&'s Part, Option<Vec<u8>>)>,
}

impl Conditions {
    /// Adds what makes no sense to `bad`.
    pub(super) fn read(matched: &Match<'_>, bad: &mut Vec<BadMatch>) -> Self {
        let kinds =
            [("header", matched.headers), ("cookie", matched.cookies), ("query", matched.query)];
        let mut all: Vec<Condition> = Vec::new();
        for (field, pairs) in kinds {
            for &(name, value) in pairs {
                let mut note = |what, text: &str, expected| {
                    let (name, text) = (Some(name.to_owned()), text.to_owned());
                    bad.push(BadMatch { field, name, what, text, expected });
                };
                let Ok(part) = Part::read(&format!("{field}:{name}")) else {
                    note("name", name, "one like x-plan");
                    continue;
                };
                if all.iter().any(|it| it.part == part) {
                    note("second name", name, "one that is not there in another spelling");
                } else if value.trim().is_empty() {
                    note("value", value, "one like pro, or `*` for any that is not empty");
                } else {
                    all.push(Condition::new(part, format!("{field}:{name}={value}"), value));
                }
            }
        }
        Self(all)
    }

    /// Whether they hold. All are read, so that a part that is there twice is an error whatever the others say.
    pub(super) fn hold<'s>(
        &'s self,
        values: &mut Values<'s, '_>,
    ) -> Result<bool, AmbiguousRequest> {
        let mut hold = true;
        for condition in &self.0 {
            let value = values.get(&condition.part)?;
            hold &= value.is_some_and(|value| condition.value.matches(value));
        }
        Ok(hold)
    }

    /// Whether they hold wherever others do. Only its own `*` matches the `*` of another.
    pub(super) fn cover(&self, others: &Self) -> bool {
        self.0.iter().all(|it| {
            let same = others.0.iter().find(|other| other.part == it.part);
            same.is_some_and(|other| it.value.matches(other.spelling.as_bytes()))
        })
    }

    /// The parts of a request that they read.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.0.iter().map(|it| &it.part)
    }
}

impl Condition {
    fn new(part: Part, written: String, value: &str) -> Self {
        let spelling = spelling(&part, value);
        Self { part, written, value: Wildcard::new(&spelling), spelling }
    }
}

/// A value as it is written in a configuration, in the spelling in which requests are read.
pub(super) fn spelling(part: &Part, value: &str) -> String {
    match part {
        Part::Query(_) => component(value),
        _ => value.trim().to_owned(),
    }
}

impl<'s, 'r> Values<'s, 'r> {
    pub(super) const fn new(request: &'r ClientRequest<'r>) -> Self {
        Self { request, read: Vec::new() }
    }

    pub(super) const fn request(&self) -> &'r ClientRequest<'r> {
        self.request
    }

    /// How many parts were read.
    #[cfg(test)]
    pub(super) const fn len(&self) -> usize {
        self.read.len()
    }

    /// The value of a part; `None` if it is missing or empty. An error if it is there twice.
    pub(super) fn get(&mut self, part: &'s Part) -> Result<Option<&[u8]>, AmbiguousRequest> {
        let known = self.read.iter().position(|(known, _)| *known == part);
        let index = known.unwrap_or(self.read.len());
        if known.is_none() {
            self.read.push((part, part.value(self.request, MatchedRoute::default())?));
        }
        Ok(self.read[index].1.as_deref())
    }

    /// The same, where somebody answers for it: what a client writes itself counts as missing.
    pub(super) fn believed(&mut self, part: &'s Part) -> Result<Option<&[u8]>, AmbiguousRequest> {
        if self.request.is_trusted || part.is_signed() { self.get(part) } else { Ok(None) }
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|condition| write!(f, " {}", condition.written))
    }
}
