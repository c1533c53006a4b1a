//! Rules that are checked before they are in force.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tidegate_core::adaptive::{AdaptiveError, Mode, Ramp};

use super::governor::{Governor, UrlGovernor, UrlLimit};
use super::{Adaptive, Rule, TARGETS_MAX, Target, lock};
use crate::effective::Effective;

/// Limits that will follow rules once the draft is [installed](Draft::install). A draft that is dropped changes nothing:
/// for a reload that may turn out to be wrong in something else.
///
/// ```
/// use tidegate::adaptive::{Adaptive, Draft, Rule};
///
/// let adaptive = Adaptive::default();
/// let mut draft: Draft = adaptive.draft();
/// let database = draft.target("db");
/// draft.govern("search", 1000, Rule::observing(&database))?;
/// assert!(adaptive.status().is_empty() && adaptive.targets().is_empty());
/// draft.install();
/// assert_eq!(adaptive.status()[0].name, "search");
/// assert_eq!(adaptive.targets()[0].name(), "db");
/// # Ok::<(), tidegate::adaptive::AdaptiveError>(())
/// ```
#[must_use = "a draft that is not installed changes nothing"]
pub struct Draft {
    adaptive: Adaptive,
    targets: BTreeMap<String, Target>,
    governors: Vec<Governor>,
    urls: Vec<(String, UrlGovernor)>,
}

impl Adaptive {
    /// A draft of other rules.
    pub fn draft(&self) -> Draft {
        let (targets, governors, urls) = (BTreeMap::new(), Vec::new(), Vec::new());
        Draft { adaptive: self.clone(), targets, governors, urls }
    }
}

impl Draft {
    /// Like [`Adaptive::target`]. A target that is not known yet is added when the draft is installed.
    pub fn target(&mut self, name: &str) -> Target {
        let state = &self.adaptive.state;
        let known = lock(&state.targets);
        if let Some(target) = known.get(name).or_else(|| self.targets.get(name)) {
            return target.clone();
        }
        let has_room = known.len() + self.targets.len() < TARGETS_MAX;
        let name = if has_room { name } else { "other" };
        let new = || Target::new(name, state.clock.clone());
        let target = known.get(name).cloned().unwrap_or_else(new);
        self.targets.entry(name.to_owned()).or_insert(target).clone()
    }

    /// Like [`Adaptive::govern`], from when the draft is installed.
    pub fn govern(
        &mut self,
        name: &str,
        units: u64,
        rule: Rule,
    ) -> Result<Effective, AdaptiveError> {
        let before = lock(&self.adaptive.state.governors).get(name).cloned();
        let governor = Governor::new(name, units, rule, before.as_deref())?;
        let effective = governor.effective.clone();
        self.governors.push(governor);
        Ok(effective)
    }

    /// Like [`Adaptive::govern_urls`], from when the draft is installed.
    ///
    /// ```
    /// # use tidegate::adaptive::{Adaptive, Mode, Ramp};
    /// let adaptive = Adaptive::default();
    /// let mut draft = adaptive.draft();
    /// let site = draft.target("site");
    /// let effective = draft.govern_urls("pages", 240, Ramp::latency_per_url(), &site, Mode::Enforce);
    /// draft.install();
    /// assert_eq!(effective.units_for(b"/report"), None); // until that URL is slow
    /// ```
    pub fn govern_urls(
        &mut self,
        name: &str,
        units: u64,
        ramp: Ramp,
        target: &Target,
        mode: Mode,
    ) -> Effective {
        self.govern_each_url(name, UrlLimit::Units(units, ramp), target, mode)
    }

    /// The same without a limit on fast URLs. A URL that takes longer than [300 ms](Ramp::latency_per_url) on average is
    /// limited from its busiest fast minute down, or from `least` if that is more. The limit of the policy has to be above
    /// all that may come.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::adaptive::{Adaptive, Mode};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let adaptive = Adaptive::default();
    /// let mut draft = adaptive.draft();
    /// let site = draft.target("site");
    /// let effective = draft.govern_urls_uncapped("pages", 240, &site, Mode::Enforce);
    /// draft.install();
    /// (0..5000).for_each(|_| site.observe_url("/app.css", Duration::from_millis(1)));
    /// site.observe_url("/report", Duration::from_millis(9150));
    /// adaptive.tick().await;
    /// assert_eq!((effective.units_for("/app.css"), effective.units_for("/report")), (None, Some(122)));
    /// # }
    /// ```
    pub fn govern_urls_uncapped(
        &mut self,
        name: &str,
        least: u64,
        target: &Target,
        mode: Mode,
    ) -> Effective {
        self.govern_each_url(name, UrlLimit::Uncapped { least }, target, mode)
    }

    fn govern_each_url(
        &mut self,
        name: &str,
        limit: UrlLimit,
        target: &Target,
        mode: Mode,
    ) -> Effective {
        let before = lock(&self.adaptive.state.urls).get(name).map(|it| it.effective.clone());
        let effective = before.unwrap_or_default();
        let governor = UrlGovernor::new(effective.clone(), limit, target, mode);
        self.urls.push((name.to_owned(), governor));
        effective
    }

    /// Puts the rules in force. A limit that followed a rule of the same name goes on from where that was. Others stay
    /// until they are [forgotten](Adaptive::retain).
    pub fn install(self) {
        let state = &self.adaptive.state;
        lock(&state.targets).extend(self.targets);
        let mut governors = lock(&state.governors);
        for governor in self.governors {
            let name = governor.name.clone();
            governor.take_over(governors.get(&name).map(|it| &**it));
            governors.insert(name, Arc::new(governor));
        }
        drop(governors);
        let mut urls = lock(&state.urls);
        for (name, next) in self.urls {
            next.take_over(urls.get(&name));
            urls.insert(name, next);
        }
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let governors: Vec<_> = self.governors.iter().map(|it| &it.name).collect();
        f.debug_struct("Draft").field("governors", &governors).finish_non_exhaustive()
    }
}
