//! The limit in force while what it protects can bear less than all of it.

use std::num::NonZeroU32;

use crate::limit::Limit;

impl Limit {
    /// This limit with `units` instead of all it declares: at least 1, and never more than declared.
    ///
    /// - Windows and logs compare what they have counted with `units`.
    /// - GCRA and the token bucket: the interval becomes `period / units`, exactly, and the burst
    ///   `max(1, ⌊burst · units / limit⌋)`. What is ahead stays ahead as time. Where the arithmetic has no exact form for
    ///   `units`, as with a million a day, the next lower round number is in force.
    /// - Quotas and concurrency stay as they are: what is counted by the month, or in flight, does not follow a moment's
    ///   load.
    ///
    /// A limit that goes down and up again creates nothing: in any span Δ at most `max(1, burst · m / limit) + m / period ·
    /// Δ` units are admitted, and no more than `m` in any window, where `m` is the largest number of units in force in it.
    ///
    /// ```
    /// use tidegate_core::Limit;
    ///
    /// let api: Limit = "100/min burst 20".parse()?;
    /// let half = api.effective(50);
    /// assert_eq!((half.units(), half.ceiling()), (50, 10));
    /// assert_eq!(api.effective(1).ceiling(), 1);
    /// assert_eq!(api.effective(0), api.effective(1));
    /// assert_eq!(api.effective(1000), api);
    ///
    /// let pages: Limit = "sliding-window 240/min".parse()?;
    /// assert_eq!(pages.effective(122), "sliding-window 122/min".parse()?);
    /// let plan: Limit = "quota 10000/month".parse()?;
    /// assert_eq!(plan.effective(1), plan);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn effective(&self, units: u64) -> Self {
        let units = units.clamp(1, self.units());
        match self {
            Self::Gcra(gcra) => Self::Gcra(gcra.effective(units)),
            Self::TokenBucket(gcra) => Self::TokenBucket(gcra.effective(units)),
            Self::FixedWindow(window) => window.with_limit(units).into(),
            Self::SlidingWindow(window) => window.with_limit(units).into(),
            Self::SlidingLog(log) => log.with_limit(units).into(),
            Self::Quota(_) | Self::Concurrency(_) => self.clone(),
        }
    }

    /// The same in proportion, for a limit that stands in for one of `whole` units: half of it where `units` are half of
    /// those.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let (api, partner): (Limit, Limit) = ("100/min".parse()?, "fixed-window 5000/min".parse()?);
    /// assert_eq!(partner.effective_part(30, api.units()), "fixed-window 1500/min".parse()?);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn effective_part(&self, units: u64, whole: u64) -> Self {
        if units >= whole {
            return self.clone();
        }
        let part = u128::from(self.units()) * u128::from(units) / u128::from(whole.max(1));
        // Below the limit's own units, which are a u64.
        self.effective(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// What each of `nodes` may grant by itself while `units` are in force: see [`Limit::share`].
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let window: Limit = "fixed-window 100/min".parse()?;
    /// assert_eq!(window.effective_share(50, "4".parse()?).units(), 12);
    /// let api: Limit = "100/min burst 20".parse()?;
    /// let share = api.effective_share(50, "4".parse()?); // 50 in four minutes
    /// assert_eq!((share.units(), share.ceiling(), share.period().as_secs()), (50, 2, 240));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn effective_share(&self, units: u64, nodes: NonZeroU32) -> Self {
        // Shared first, so that it is the share's own debt that a fall keeps.
        self.share(nodes).effective_part(units, self.units())
    }
}
