//! Envoy's rate limit service, over gRPC: `envoy.service.ratelimit.v3.RateLimitService`, with health and reflection
//! beside it, and the same questions as JSON over HTTP.
//!
//! The way of a call: [`connection`] → [`service`] picks the method → [`wire`] reads the request within bounds →
//! [`targets`] finds what each descriptor means → [`decide`] asks the engine → [`answer`] is what it said → [`wire`].

mod answer;
mod connection;
mod decide;
mod health;
mod json;
mod native;
mod reflection;
mod request;
mod service;
mod spawn;
mod targets;
mod wire;

pub(crate) use self::connection::{GrpcBounds, GrpcDoor};
pub(crate) use self::json::routes;
pub(crate) use self::service::Service;

use tidegate::Policy;

use crate::envoy::Rules;

/// What Envoy's descriptors mean, and how they are answered: the service's part of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Rls {
    pub(crate) rules: Rules,
    pub(crate) manner: Manner,
}

/// How the service answers, beyond what its rules say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Whether all descriptors of a request are one atomic step, in which a refusal charges nothing. Otherwise each is
    /// charged by itself, and one that refuses has what is left of it taken, as the original does.
    pub(crate) is_atomic: bool,
    /// Whether answers tell the tightest limit in `RateLimit-…` headers.
    pub(crate) adds_headers: bool,
    pub(crate) shadow: Shadow,
}

/// Who is admitted in the end, whatever the rules say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Shadow {
    #[default]
    Nobody,
    /// Who asks as Envoy does.
    Envoy,
    /// Whoever asks at any door, since all policies are only tried out.
    Everybody,
}

impl Rls {
    /// Every rule that limits, as a policy by its name.
    pub(crate) fn policies(&self) -> Vec<(&str, Policy)> {
        let mut policies = self.rules.policies();
        if self.manner.shadow == Shadow::Everybody {
            policies = policies.into_iter().map(|(name, it)| (name, it.shadow(true))).collect();
        }
        policies
    }
}

impl Default for Manner {
    fn default() -> Self {
        Self { is_atomic: true, adds_headers: false, shadow: Shadow::Nobody }
    }
}
