//! What a layer asks, and how headers call its limits.

use std::sync::Arc;

use tidegate_core::Limit;

use super::headers::Label;
use crate::clock::Clock;
use crate::engine::PolicyHandle;
use crate::limiter::Limiter;
use crate::policy::Member;

/// What a [`RateLimitLayer`](super::RateLimitLayer) can ask: a [`Limiter`], which answers at once, or a policy of an
/// engine, over any store.
///
/// ```
/// use tidegate::{Engine, Limiter, tower::{LayerLimits, RateLimitLayer}};
///
/// fn layer<L: LayerLimits>(limits: L) -> RateLimitLayer<L> {
///     RateLimitLayer::new(limits).skip(|request| request.uri.path() == "/healthz")
/// }
///
/// let engine = Engine::builder().policy("api", "100/min").build()?;
/// let (by_limiter, by_policy) = (layer(Limiter::new("100/min")?), layer(engine.policy("api")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[expect(private_bounds, reason = "a layer knows how to ask these two, and nothing else")]
pub trait LayerLimits: Labelled + Clone {}

pub(super) trait Labelled {
    fn labels(&self) -> Labels;
}

impl<C: Clock> LayerLimits for Limiter<C> {}
impl<C: Clock + 'static> LayerLimits for PolicyHandle<C> {}

impl<C: Clock> Labelled for Limiter<C> {
    fn labels(&self) -> Labels {
        Labels::of_limit("default", self.limit())
    }
}

impl<C: Clock + 'static> Labelled for PolicyHandle<C> {
    fn labels(&self) -> Labels {
        let policy = self.as_ref();
        let label = |member: &Member| {
            let name = if member.name.is_empty() { policy.name() } else { &member.name };
            Label::new(name, &member.limit)
        };
        Labels { name: policy.name().into(), declared: policy.members().map(label).collect() }
    }
}

/// The labels of limits as they are declared: to write one takes longer than a decision.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    pub(super) name: Arc<str>,
    declared: Arc<[Label]>,
}

impl Labels {
    pub(super) fn of_limit(name: &str, limit: &Limit) -> Self {
        Self { name: name.into(), declared: [Label::new(name, limit)].into() }
    }

    /// The label of the limit that decided: one of those that are declared, or one that the key has instead.
    pub(super) fn find<'l>(
        &self,
        declared: impl IntoIterator<Item = &'l Limit>,
        name: &str,
        limit: &Limit,
    ) -> Label {
        let mut labelled = declared.into_iter().zip(&*self.declared);
        let known = labelled.find(|(it, _)| std::ptr::eq(*it, limit));
        known.map_or_else(|| Label::new(name, limit), |(_, label)| label.clone())
    }
}
