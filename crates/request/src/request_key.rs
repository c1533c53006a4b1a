//! The key of a request: one value, or one for each identifier that the limits of a policy name.

use tidegate::Key;

use crate::key::Part;
use crate::{AmbiguousRequest, Choice, ClientRequest, KeyParts, MatchedRoute};

/// What requests are counted by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CountedBy {
    /// All limits count by the same key.
    One(KeyParts),
    /// Each limit counts by the identifier that it names.
    Each(Vec<(String, KeyParts)>),
    /// Tenants share a limit.
    Tenant(TenantKey),
}

/// Which tenant a request is of, and what decides its weight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TenantKey {
    /// The name of the tenant's identifier.
    pub by: String,
    /// The tenant.
    pub tenant: KeyParts,
    /// The name of the identifier that decides the weight, and its value for each value of a request.
    pub weight: Option<(String, Choice<String>)>,
}

/// The key of one request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestKey<'a> {
    /// One value for all limits.
    One(Vec<u8>),
    /// Values by identifier.
    Each(Vec<(&'a str, Vec<u8>)>),
}

impl Default for CountedBy {
    /// The client's address.
    fn default() -> Self {
        Self::One(KeyParts::default())
    }
}

impl CountedBy {
    /// The key of a request on a route. An error if servers could read another one.
    pub fn key_for(
        &self,
        request: &ClientRequest<'_>,
        route: MatchedRoute<'_>,
    ) -> Result<RequestKey<'_>, AmbiguousRequest> {
        Ok(match self {
            Self::One(parts) => RequestKey::One(parts.key_for(request, route)?),
            Self::Each(named) => {
                let mut each = Vec::with_capacity(named.len());
                for (name, parts) in named {
                    each.push((name.as_str(), parts.key_for(request, route)?));
                }
                RequestKey::Each(each)
            }
            Self::Tenant(TenantKey { by, tenant, weight }) => {
                let mut each = vec![(by.as_str(), tenant.key_for(request, route)?)];
                if let Some((name, choice)) = weight {
                    each.push((name.as_str(), choice.pick_for(request)?.clone().into_bytes()));
                }
                RequestKey::Each(each)
            }
        })
    }

    /// The same by the key of a route, which says who the tenant is where a limit is shared.
    pub(crate) fn by_route(self, policy: Option<&Self>) -> Self {
        match (self, policy) {
            (Self::One(tenant), Some(Self::Tenant(key))) => {
                Self::Tenant(TenantKey { tenant, ..key.clone() })
            }
            (own, _) => own,
        }
    }

    /// How many parts of a request may be read for a key.
    pub fn alternatives(&self) -> usize {
        let weight = usize::from(self.weight_part().is_some());
        self.parts().map(KeyParts::alternatives).sum::<usize>() + weight
    }

    /// Whether a limit by this identifier (`None`: by the only key) counts each client alone.
    pub fn is_of_client(&self, identifier: Option<&str>) -> bool {
        match self {
            Self::One(parts) => parts.is_of_client(),
            Self::Each(named) => {
                let mut named = named.iter().filter(|(name, _)| Some(&**name) == identifier);
                named.any(|(_, parts)| parts.is_of_client())
            }
            Self::Tenant(TenantKey { by, tenant, .. }) => {
                Some(&**by) == identifier && tenant.is_of_client()
            }
        }
    }

    /// Whether a key depends on a token.
    pub fn reads_tokens(&self) -> bool {
        self.parts().any(KeyParts::reads_tokens) || self.weight_part().is_some_and(Part::is_signed)
    }

    /// Whether a key depends on the body of a request.
    pub fn reads_body(&self) -> bool {
        self.parts().any(KeyParts::reads_body)
    }

    /// Whether a key depends on a header.
    pub fn reads_headers(&self) -> bool {
        self.parts().any(KeyParts::reads_headers)
            || self.weight_part().is_some_and(Part::reads_headers)
    }

    /// Whether a key depends on a header that access logs usually lack.
    pub fn reads_unlogged_headers(&self) -> bool {
        self.parts().any(KeyParts::reads_unlogged_headers)
            || self.weight_part().is_some_and(Part::reads_unlogged_headers)
    }

    /// The identifiers that limits name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let tenant = match self {
            Self::Tenant(key) => Some(key.by.as_str()),
            Self::One(_) | Self::Each(_) => None,
        };
        self.each().iter().map(|(name, _)| name.as_str()).chain(tenant)
    }

    fn each(&self) -> &[(String, KeyParts)] {
        match self {
            Self::One(_) | Self::Tenant(_) => &[],
            Self::Each(named) => named,
        }
    }

    /// The part of a request that decides a tenant's weight.
    fn weight_part(&self) -> Option<&Part> {
        match self {
            Self::Tenant(key) => key.weight.as_ref().and_then(|(_, choice)| choice.part()),
            Self::One(_) | Self::Each(_) => None,
        }
    }

    fn parts(&self) -> impl Iterator<Item = &KeyParts> {
        let one = match self {
            Self::One(parts) | Self::Tenant(TenantKey { tenant: parts, .. }) => Some(parts),
            Self::Each(_) => None,
        };
        one.into_iter().chain(self.each().iter().map(|(_, parts)| parts))
    }
}

impl RequestKey<'_> {
    /// The values by identifier, for [`RequestKey::key`]; empty for one value.
    pub fn named(&self) -> Vec<(&str, &[u8])> {
        match self {
            Self::One(_) => Vec::new(),
            Self::Each(named) => named.iter().map(|(name, value)| (*name, &**value)).collect(),
        }
    }

    /// The key for the engine.
    pub fn key<'k>(&'k self, named: &'k [(&'k str, &'k [u8])]) -> Key<'k> {
        match self {
            Self::One(key) => Key::One(key),
            Self::Each(_) => Key::Named(named),
        }
    }

    /// The key for logs and pages: several values as `name=value`.
    pub fn into_label(self) -> Vec<u8> {
        let pair = |(name, value): (&str, Vec<u8>)| [name.as_bytes(), b"=", &value].concat();
        match self {
            Self::One(key) => key,
            Self::Each(named) => named.into_iter().map(pair).collect::<Vec<_>>().join(&b", "[..]),
        }
    }
}
