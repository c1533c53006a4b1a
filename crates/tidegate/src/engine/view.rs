//! The policies of an engine, to be shown.

use tidegate_core::{LeakyBucket, LeaseError, Mode, Terms};

use crate::policy::{Compiled, CompiledKind, Member, OnStoreError, PolicyKind};

/// A policy as an engine holds it, to be shown.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Engine, Mode, Policy, PolicyKind, PolicyView};
///
/// let engine = Engine::builder()
///     .policy("export", Policy::shaper("2/s max-wait 5s"))
///     .policy("plan", Policy::all().limit("second", "10/s").limit("day", "fixed-window 9/day"))
///     .build()?;
/// let views: Vec<PolicyView> = engine.policies().collect();
/// assert_eq!((views[0].name(), views[0].mode()), ("export", None));
/// assert_eq!(views[0].kind(), PolicyKind::Shaper);
/// assert!(views[0].shaper().is_some_and(|shaper| shaper.max_wait() == Duration::from_secs(5)));
/// assert_eq!((views[1].name(), views[1].mode()), ("plan", Some(Mode::All)));
/// assert!(views[1].members().map(|member| member.limit.units()).eq([10, 9]));
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PolicyView<'a> {
    pub(super) policy: &'a Compiled,
}

impl<'a> PolicyView<'a> {
    /// The policy's name.
    pub const fn name(&self) -> &'a str {
        &self.policy.name
    }

    /// Its place among the [policies](crate::Engine::policies) of its engine: for those who keep something of their own
    /// beside each.
    ///
    /// ```
    /// # use tidegate::Engine;
    /// let engine = Engine::builder().policy("api", "5/s").policy("login", "5/h").build()?;
    /// let asked = vec![0; engine.policies().count()];
    /// assert_eq!(asked[engine.policy("login")?.index()], 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn index(&self) -> usize {
        self.policy.index
    }

    /// What it is asked for.
    pub const fn kind(&self) -> PolicyKind {
        self.policy.purpose
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

    /// Whether it is only [tried out](crate::Policy::shadow).
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let beta = Policy::all().limit("", "10/s").shadow(true);
    /// let engine = Engine::builder().policy("api", "5/s").policy("beta", beta).build()?;
    /// assert!(engine.policies().map(|policy| policy.is_shadow()).eq([false, true]));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub const fn is_shadow(&self) -> bool {
        self.policy.shadow
    }

    /// What it answers while the store does not.
    ///
    /// ```
    /// # use tidegate::{Engine, OnStoreError, Policy};
    /// let login = Policy::all().limit("", "5/h").on_store_error(OnStoreError::DENY);
    /// let engine = Engine::builder().policy("api", "5/s").policy("login", login).build()?;
    /// let answers = engine.policies().map(|policy| policy.on_store_error());
    /// assert!(answers.eq([OnStoreError::Local, OnStoreError::DENY]));
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub const fn on_store_error(&self) -> OnStoreError {
        self.policy.on_store_error
    }

    /// Why a policy that asks for leases runs without, where it does: its burst or period is too small for them.
    ///
    /// ```
    /// # use tidegate::{Engine, Policy};
    /// let tight = Policy::all().limit("", "1/s burst 1").lease(true);
    /// let engine = Engine::builder().policy("tight", tight).build()?;
    /// let problems: Vec<_> = engine.policies().filter_map(|policy| policy.lease_problem()).collect();
    /// assert_eq!(problems.len(), 1);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn lease_problem(&self) -> Option<LeaseError> {
        let limits = self.policy.members().iter().map(|(_, member)| &member.limit);
        let terms = self.policy.lease.then(|| Terms::from_limits(limits))?;
        terms.err()
    }

    /// The shaper, if it is one.
    pub const fn shaper(&self) -> Option<&'a LeakyBucket> {
        match &self.policy.kind {
            CompiledKind::Shaper(_, limit) => Some(limit),
            CompiledKind::Limits { .. } => None,
        }
    }
}
