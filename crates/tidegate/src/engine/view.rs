//! The policies of an engine, to be shown.

use tidegate_core::{LeakyBucket, Mode};

use crate::policy::{Compiled, CompiledKind, Member};

/// A policy as an engine holds it, to be shown.
#[derive(Clone, Copy, Debug)]
pub struct PolicyView<'a> {
    pub(super) name: &'a str,
    pub(super) policy: &'a Compiled,
}

impl<'a> PolicyView<'a> {
    /// The policy's name.
    pub const fn name(&self) -> &'a str {
        self.name
    }

    /// How its limits make one answer; `None` for a shaper.
    pub const fn mode(&self) -> Option<Mode> {
        match &self.policy.kind {
            CompiledKind::Limits { mode, .. } => Some(*mode),
            CompiledKind::Shaper(..) => None,
        }
    }

    /// Its limits, in declared order; none for a shaper.
    pub fn members(&self) -> impl Iterator<Item = &'a Member> + use<'a> {
        self.policy.members().iter().map(|(_, member)| member)
    }

    /// The shaper, if it is one.
    pub const fn shaper(&self) -> Option<&'a LeakyBucket> {
        match &self.policy.kind {
            CompiledKind::Shaper(_, limit) => Some(limit),
            CompiledKind::Limits { .. } => None,
        }
    }
}
