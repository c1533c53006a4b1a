//! What requests are counted by: one key, or one for each identifier that the limits of a policy name.

use tidegate::Key;

use super::{KeyParts, Seen};

/// What requests are counted by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CountedBy {
    /// All limits by the same.
    One(KeyParts),
    /// Each limit by the identifier that it names.
    Each(Vec<(String, KeyParts)>),
}

/// What that is of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Counted<'a> {
    One(Vec<u8>),
    Each(Vec<(&'a str, Vec<u8>)>),
}

impl Default for CountedBy {
    /// The client's address.
    fn default() -> Self {
        Self::One(KeyParts::default())
    }
}

impl CountedBy {
    pub fn of(&self, request: &Seen<'_>, route: Option<&str>) -> Counted<'_> {
        match self {
            Self::One(parts) => Counted::One(parts.of(request, route)),
            Self::Each(named) => {
                let value = |parts: &KeyParts| parts.of(request, route);
                let each = named.iter().map(|(name, parts)| (name.as_str(), value(parts)));
                Counted::Each(each.collect())
            }
        }
    }

    /// Whether it reads any header.
    pub fn reads_headers(&self) -> bool {
        self.parts().any(KeyParts::reads_headers)
    }

    /// Whether it reads headers that an access log usually leaves out.
    pub fn reads_unlogged_headers(&self) -> bool {
        self.parts().any(KeyParts::reads_unlogged_headers)
    }

    /// The identifiers, where limits name them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.each().iter().map(|(name, _)| name.as_str())
    }

    fn each(&self) -> &[(String, KeyParts)] {
        match self {
            Self::One(_) => &[],
            Self::Each(named) => named,
        }
    }

    fn parts(&self) -> impl Iterator<Item = &KeyParts> {
        let one = match self {
            Self::One(parts) => Some(parts),
            Self::Each(_) => None,
        };
        one.into_iter().chain(self.each().iter().map(|(_, parts)| parts))
    }
}

impl Counted<'_> {
    /// Identifiers by name, for [`Counted::key`]; none where there is only one.
    pub fn named(&self) -> Vec<(&str, &[u8])> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Each(named) => named.iter().map(|(name, value)| (*name, &**value)).collect(),
        }
    }

    /// As the engine is asked.
    pub fn key<'k>(&'k self, named: &'k [(&'k str, &'k [u8])]) -> Key<'k> {
        match self {
            Self::One(key) => Key::One(key),
            Self::Each(_) => Key::Named(named),
        }
    }

    /// For people: several as `name=value`.
    pub fn shown(self) -> Vec<u8> {
        let shown = |(name, value): (&str, Vec<u8>)| [name.as_bytes(), b"=", &value].concat();
        match self {
            Self::One(key) => key,
            Self::Each(named) => named.into_iter().map(shown).collect::<Vec<_>>().join(&b", "[..]),
        }
    }
}
