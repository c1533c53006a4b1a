//! The configuration of Envoy's rate limit service.

use tidegate::Policy;

use crate::envoy::Rules;

/// Rules for Envoy's descriptors, and how they are answered.
#[derive(Debug, Default)]
pub struct Rls {
    pub rules: Rules,
    pub manner: Manner,
}

/// How the service answers, beside its rules.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Whether all descriptors of a request are one atomic step, so that a refusal charges nothing. Otherwise each is
    /// charged by itself, and one that refuses loses its remaining units, as in the original.
    pub is_atomic: bool,
    /// Whether answers carry the tightest limit in `RateLimit-…` headers.
    pub adds_headers: bool,
    pub shadow: Shadow,
}

/// Which requests are admitted even if a rule refuses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Shadow {
    #[default]
    Nobody,
    /// Those of Envoy.
    Envoy,
    /// Those at any door: all policies are in shadow mode.
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
