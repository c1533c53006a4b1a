//! What Envoy's rate limit service goes by.

use tidegate::Policy;

use crate::envoy::Rules;

/// What Envoy's descriptors mean, and how they are answered: the service's part of a configuration.
#[derive(Debug, Default)]
pub struct Rls {
    pub rules: Rules,
    pub manner: Manner,
}

/// How the service answers, beyond what its rules say.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether all descriptors of a request are one atomic step, in which a refusal charges nothing. Otherwise each is
    /// charged by itself, and one that refuses has what is left of it taken, as the original does.
    pub is_atomic: bool,
    /// Whether answers tell the tightest limit in `RateLimit-…` headers.
    pub adds_headers: bool,
    pub shadow: Shadow,
}

/// Who is admitted in the end, whatever the rules say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Shadow {
    #[default]
    Nobody,
    /// Who asks as Envoy does.
    Envoy,
    /// Whoever asks at any door, since all policies are only tried out.
    Everybody,
}

impl Rls {
    /// Every rule that limits, as a policy by its name.
    pub fn policies(&self) -> Vec<(&str, Policy)> {
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
