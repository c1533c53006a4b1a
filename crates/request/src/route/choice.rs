//! What a route chooses by what a request says of itself, such as its plan.

use std::fmt;

use tidegate_core::text::printable;

use super::condition::{Values, spelling};
use crate::key::Part;
use crate::{AmbiguousRequest, ClientRequest};

/// Far more plans than anybody sells.
const NAMED_MAX: usize = 64;

/// Something for each of some values of a request, and something else for all others. Without a part of a request, always
/// the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice<T> {
    by: Option<Part>,
    named: Vec<(String, T)>,
    otherwise: T,
}

/// Why nothing can be chosen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadChoice {
    /// This part of a request cannot choose.
    Part(String),
    /// There are so many values, which is none or too many.
    Values(usize),
}

impl<T> Choice<T> {
    /// Always the same.
    pub const fn always(value: T) -> Self {
        Self { by: None, named: Vec::new(), otherwise: value }
    }

    /// By a part of a request, as it is written in a configuration: `header:x-plan`.
    pub fn by(
        part: &str,
        named: impl IntoIterator<Item = (String, T)>,
        otherwise: T,
    ) -> Result<Self, BadChoice> {
        let by = Part::read(part).ok().filter(|it| it.can_choose() && !part.contains('|'));
        let by = by.ok_or_else(|| BadChoice::Part(part.to_owned()))?;
        let spelt = |(value, chosen): (String, T)| (spelling(&by, &value), chosen);
        let named: Vec<_> = named.into_iter().map(spelt).collect();
        if named.is_empty() || named.len() > NAMED_MAX {
            return Err(BadChoice::Values(named.len()));
        }
        Ok(Self { by: Some(by), named, otherwise })
    }

    /// What a request gets. Its word counts only if it is signed or came through a trusted peer; otherwise, and for values
    /// that have no name here, it gets what all others get. An error if a word that counts is there twice.
    pub(super) fn pick<'s>(
        &'s self,
        values: &mut Values<'s, '_>,
    ) -> Result<&'s T, AmbiguousRequest> {
        let Some(by) = &self.by else { return Ok(&self.otherwise) };
        let value = values.believed(by)?;
        let named = self.named.iter().find(|(name, _)| Some(name.as_bytes()) == value);
        Ok(named.map_or(&self.otherwise, |(_, chosen)| chosen))
    }

    /// The same, where a route has not read the request.
    pub(crate) fn pick_for<'s>(
        &'s self,
        request: &ClientRequest<'_>,
    ) -> Result<&'s T, AmbiguousRequest> {
        self.pick(&mut Values::new(request))
    }

    /// The part of a request that it reads.
    pub(crate) const fn part(&self) -> Option<&Part> {
        self.by.as_ref()
    }

    /// All that can be chosen.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.named.iter().map(|(_, value)| value).chain([&self.otherwise])
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.named.iter_mut().map(|(_, value)| value).chain([&mut self.otherwise])
    }

    /// The same, with something made of each value.
    pub(super) fn map<U>(self, mut make: impl FnMut(T) -> U) -> Choice<U> {
        let named = self.named.into_iter().map(|(name, value)| (name, make(value))).collect();
        Choice { by: self.by, named, otherwise: make(self.otherwise) }
    }
}

impl fmt::Display for BadChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => {
                write!(f, "`{}` cannot choose: expected {}", printable(part), Part::CHOOSING_NAMES)
            }
            Self::Values(0) => f.write_str("names no value: add some"),
            Self::Values(count) => write!(f, "names {count} values: expected at most {NAMED_MAX}"),
        }
    }
}
