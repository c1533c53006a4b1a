//! One node's share of a limit, for when it has to decide alone.

use std::num::NonZeroU32;

use crate::algorithm::{Concurrency, Gcra, LeakyBucket};
use crate::limit::Limit;

impl Limit {
    /// What each of `nodes` may grant so that together they grant no more than this limit, but each at least one.
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use tidegate_core::Limit;
    ///
    /// let limit: Limit = "100/min burst 20".parse()?;
    /// let three = NonZeroU32::MIN.saturating_add(2);
    /// assert_eq!(limit.share(three), "100/180s burst 6".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn share(&self, nodes: NonZeroU32) -> Self {
        let part = |units: u64| (units / u64::from(nodes.get())).max(1);
        let shared = match self {
            // As many units over a longer time: a share keeps its fraction.
            Self::Gcra(gcra) => share_of_rate(gcra, nodes).map(Self::Gcra),
            Self::TokenBucket(gcra) => share_of_rate(gcra, nodes).map(Self::TokenBucket),
            Self::FixedWindow(window) => Some(window.with_limit(part(window.limit())).into()),
            Self::SlidingWindow(window) => Some(window.with_limit(part(window.limit())).into()),
            Self::SlidingLog(log) => Some(log.with_limit(part(log.limit())).into()),
            Self::Quota(quota) => Some(quota.with_limit(part(quota.limit())).into()),
            Self::Concurrency(limit) => {
                Concurrency::new(part(limit.limit()), limit.lease()).ok().map(Into::into)
            }
        };
        // A smaller limit is never invalid where the larger one was not.
        shared.unwrap_or_else(|| self.clone())
    }
}

impl LeakyBucket {
    /// What each of `nodes` may let through.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::LeakyBucket;
    /// let shaper: LeakyBucket = "6/s max-wait 5s".parse()?;
    /// let share = shaper.share("3".parse()?);
    /// assert_eq!((share.limit(), share.period()), (6, Duration::from_secs(3)));
    /// assert_eq!(share.max_wait(), shaper.max_wait()); // nobody waits longer for it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn share(&self, nodes: NonZeroU32) -> Self {
        let period = self.period().saturating_mul(nodes.get());
        Self::new(self.limit(), period, self.max_wait()).unwrap_or(*self)
    }
}

fn share_of_rate(gcra: &Gcra, nodes: NonZeroU32) -> Option<Gcra> {
    let burst = (gcra.burst() / u64::from(nodes.get())).max(1);
    let longer = Gcra::new(gcra.limit(), gcra.period().saturating_mul(nodes.get()), burst);
    // Where so long a period has no exact form, fewer units in the same time do.
    let fewer = || Gcra::new((gcra.limit() / u64::from(nodes.get())).max(1), gcra.period(), burst);
    longer.or_else(|_| fewer()).ok()
}
