//! The limit in force: less of it for a while, or one node's share.

use std::num::NonZeroU32;

use super::Limit;
use crate::algorithm::LimitAlgorithm;

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
        map_algorithm!(self, limit => limit.effective(units, 1))
    }

    /// The same in proportion, for a limit that stands in for one of `whole` units: half of it where `units` are half of
    /// those. However little that is, its burst can pay for a check of `cost`, unless the whole limit could not.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let (api, partner): (Limit, Limit) = ("100/min burst 20".parse()?, "fixed-window 5000/min".parse()?);
    /// assert_eq!(partner.effective_part(30, api.units(), 1), "fixed-window 1500/min".parse()?);
    /// let little = api.effective_part(30, api.units(), 10);
    /// assert_eq!((little.units(), little.ceiling()), (30, 10)); // not 6, which no check would fit in
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn effective_part(&self, units: u64, whole: u64, cost: u64) -> Self {
        if units >= whole {
            return self.clone();
        }
        let part = u128::from(self.units()) * u128::from(units) / u128::from(whole.max(1));
        // Below the limit's own units, which are a u64.
        let units = u64::try_from(part).unwrap_or(u64::MAX).clamp(1, self.units());
        map_algorithm!(self, limit => limit.effective(units, cost))
    }

    /// The same limit with at most `burst` at once, at least 1, where it has a pace: the others leave that to who is asked
    /// with more of it, since what is ahead stays ahead. Windows and logs have no burst, and stay as they are.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let (api, pages): (Limit, Limit) = ("100/min burst 20".parse()?, "fixed-window 100/min".parse()?);
    /// assert_eq!((api.with_burst(5).units(), api.with_burst(5).ceiling()), (100, 5));
    /// assert_eq!(api.with_burst(21), api);
    /// assert_eq!(pages.with_burst(5), pages);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn with_burst(&self, burst: u64) -> Self {
        match self {
            Self::Gcra(limit) => Self::Gcra(limit.with_burst(burst)),
            Self::TokenBucket(limit) => Self::TokenBucket(limit.with_burst(burst)),
            counts => counts.clone(),
        }
    }

    /// The same limit with finer units, where it has a pace: a hundred thousand or more in as much more time, so that
    /// [`Limit::effective`] comes close to any part of it. Windows and logs count whole units, and stay as they are.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let (api, pages): (Limit, Limit) = ("10/s burst 20".parse()?, "fixed-window 10/s".parse()?);
    /// assert_eq!(api.finer(), "100000/10000s burst 20".parse()?);
    /// assert_eq!(api.finer().effective(2_500).ceiling(), 1); // one unit in four seconds
    /// assert_eq!(pages.finer(), pages);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    #[must_use]
    pub fn finer(&self) -> Self {
        match self {
            Self::Gcra(limit) => Self::Gcra(limit.finer()),
            Self::TokenBucket(limit) => Self::TokenBucket(limit.finer()),
            counts => counts.clone(),
        }
    }

    /// Whether this limit, in place of another, still counts all that was spent under that: then what was leased before
    /// can be [given back](Limit::give_back) afterwards.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let api: Limit = "100/min burst 20".parse()?;
    /// assert!(api.effective(99).remembers(&api) && api.remembers(&api.effective(99)));
    /// let less: Limit = "99/min burst 19".parse()?;
    /// assert!(!less.remembers(&api)); // it knows of no more than 19 units
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn remembers(&self, before: &Self) -> bool {
        match (self.as_gcra(), before.as_gcra()) {
            (Some(limit), Some(before)) => limit.remembers(before),
            _ => both_algorithms!((self, before), limit, before => limit.remembers(before)),
        }
    }

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
        self.share_for(nodes, 1)
    }

    /// The same where a check costs more than 1: the share can pay for one, unless the whole limit could not.
    ///
    /// ```
    /// # use std::num::NonZeroU32;
    /// # use tidegate_core::Limit;
    /// let (limit, nodes): (Limit, _) = ("fixed-window 100/min".parse()?, NonZeroU32::new(30).ok_or("not 0")?);
    /// assert_eq!(limit.share(nodes).units(), 3);
    /// assert_eq!(limit.share_for(nodes, 10).units(), 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn share_for(&self, nodes: NonZeroU32, cost: u64) -> Self {
        map_algorithm!(self, limit => limit.share(nodes, cost))
    }

    /// Whether [`Limit::effective`] can lower it: what is counted by the month, or in flight, does not follow a moment's
    /// load.
    ///
    /// ```
    /// # use tidegate_core::Limit;
    /// let (plan, api): (Limit, Limit) = ("quota 5/month".parse()?, "5/s".parse()?);
    /// assert!(api.follows_load() && !plan.follows_load());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn follows_load(&self) -> bool {
        fn follows<A: LimitAlgorithm>(_: &A) -> bool {
            A::FOLLOWS_LOAD
        }
        with_algorithm!(self, limit => follows(limit))
    }
}
