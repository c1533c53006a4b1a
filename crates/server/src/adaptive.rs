//! Limits that follow the load of what they protect, as a [`Plan`] of the configuration describes it.
//!
//! The library's [`Adaptive`] decides once a second how much of a limit is in force. Its inputs come from here: [`feeds`]
//! probes targets over HTTP, doors record into [`TargetStats`], and operators may set a pressure by hand.

mod feeds;
mod probe;
mod unfollowed;
mod view;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use http::StatusCode;
use tidegate::adaptive::{
    Adaptive, AdaptiveError, Draft as AdaptiveDraft, Mode, Priority, Reading, Rule, Source as Read,
    Target, WarmUp,
};
use tidegate::{Effective, Policy, Store, SystemClock};
use tokio::task::JoinSet;

use self::feeds::SignalTarget;
use self::unfollowed::UnfollowedTargets;
pub(crate) use self::view::AdaptiveLimitView;
use crate::stats::TargetStats;
use tidegate_config::plan::{self, Follows, Plan, Signal, Signals, Source, UrlCap, share_at};

/// All adaptive limits of the server. It outlives reloads.
#[derive(Debug, Default)]
pub(crate) struct AdaptiveLimits {
    runtime: Adaptive,
    target_stats: Arc<TargetStats>,
    active: ArcSwap<ActivePlans>,
    /// The tasks that push signals; replaced with the plans.
    feeds: Mutex<JoinSet<()>>,
}

/// The plans in force.
#[derive(Debug, Default)]
struct ActivePlans {
    plans: Vec<ActivePlan>,
    /// Signals that this module pushes; the library reads the others itself.
    signal_targets: Vec<SignalTarget>,
    /// Targets of reports that none of the plans follows.
    unfollowed: UnfollowedTargets,
}

#[derive(Debug)]
struct ActivePlan {
    plan: Plan,
    effective: Effective,
}

/// Plans that are built and not yet in force. Dropping it changes nothing.
#[derive(Debug)]
pub(crate) struct Prepared {
    active: ActivePlans,
    draft: AdaptiveDraft,
}

/// A limit whose refusals have their own status while the load reduces it.
#[derive(Debug)]
pub(crate) struct SheddingLimit {
    pub(crate) effective: Effective,
    /// The declared units.
    pub(crate) units: u64,
    pub(crate) status: StatusCode,
}

impl AdaptiveLimits {
    /// Agrees with the other nodes over the store.
    pub(crate) fn shared_over(store: Arc<dyn Store>) -> Self {
        Self { runtime: Adaptive::shared_over(store, SystemClock), ..Self::default() }
    }

    pub(crate) const fn target_stats(&self) -> &Arc<TargetStats> {
        &self.target_stats
    }

    /// Builds plans, ready to be [installed](Self::install). A limit that is already in force keeps its state.
    pub(crate) fn prepare(&self, plans: &[Plan]) -> Result<Prepared, String> {
        let mut active = ActivePlans::default();
        let mut draft = self.runtime.draft();
        for plan in plans.iter().filter(|plan| plan.mode != Mode::Off) {
            let effective = match &plan.follows {
                Follows::Urls { ramp, target, cap } => {
                    let (name, target) = (plan.name(), draft.target(target));
                    match *cap {
                        UrlCap::Units => {
                            draft.govern_urls(&name, plan.units, *ramp, &target, plan.mode)
                        }
                        UrlCap::None { least } => {
                            draft.govern_urls_uncapped(&name, least, &target, plan.mode)
                        }
                    }
                }
                Follows::Signals(signals) => {
                    let rule = rule(&mut draft, plan, signals, &mut active.signal_targets);
                    let governed = rule.and_then(|rule| {
                        let governed = draft.govern(&plan.name(), plan.units, rule);
                        governed.map_err(|error| error.to_string())
                    });
                    governed
                        .map_err(|error| format!("policy `{}`: {error}", plan.display_name()))?
                }
            };
            active.plans.push(ActivePlan { plan: plan.clone(), effective });
        }
        active.unfollowed = UnfollowedTargets::new(active.plans.iter().map(|it| &it.plan));
        Ok(Prepared { active, draft })
    }

    /// Replaces the plans in force.
    pub(crate) fn install(&self, Prepared { active: next, draft }: Prepared) {
        draft.install();
        let names: HashSet<_> = next.plans.iter().map(|active| active.plan.name()).collect();
        let listeners = self.listeners(&next);
        next.cap(&listeners);
        self.target_stats.set_listeners(listeners);
        let is_any = !next.plans.is_empty();
        let feeds = feeds::start(&next.signal_targets, &self.target_stats);
        *self.feeds.lock().unwrap_or_else(PoisonError::into_inner) = feeds;
        self.active.store(Arc::new(next));
        // Last, when nothing refers to the old plans.
        self.runtime.retain(|name| names.contains(name));
        self.apply_operator_pressures();
        if is_any {
            // Without plans no task has to tick.
            self.runtime.start();
        }
    }

    fn listeners(&self, next: &ActivePlans) -> BTreeMap<String, Target> {
        let names = next.plans.iter().flat_map(|active| active.plan.observed());
        names.map(|name| (name.to_owned(), self.runtime.target(name))).collect()
    }

    /// Records how full a client reports its pool to be.
    pub(crate) fn record_pool_saturation(&self, target: &str, saturation: f64) {
        for SignalTarget { signal, target: own, .. } in &self.active.load().signal_targets {
            if signal.source == Source::Pool && signal.target == target {
                own.push(Reading::Value(saturation));
            }
        }
    }

    /// Warns once of a target that clients report and no limit follows.
    pub(crate) fn warn_if_unfollowed(&self, target: &str) {
        self.active.load().unfollowed.warn_of(target);
    }

    /// The targets that limits follow, whatever moves them.
    pub(crate) fn followed_targets(&self) -> BTreeSet<String> {
        let active = self.active.load();
        let targets = active.plans.iter().flat_map(|active| active.plan.targets());
        targets.map(str::to_owned).collect()
    }

    /// The targets of reports that each limit follows, by the names of the policy and the limit.
    pub(crate) fn reported_targets(&self) -> BTreeMap<[String; 2], BTreeSet<String>> {
        let targets = |ActivePlan { plan, .. }: &ActivePlan| {
            let names = [plan.policy.clone(), plan.limit.clone()];
            (names, plan.reported().map(str::to_owned).collect())
        };
        self.active.load().plans.iter().map(targets).collect()
    }

    /// Lets the pressures that operators have set override the signals.
    pub(crate) fn apply_operator_pressures(&self) {
        let (pressures, active) = (self.target_stats.operator_pressures(), self.active.load());
        for SignalTarget { signal, target: own, .. } in &active.signal_targets {
            own.fix(pressures.get(&signal.target).map(|pressure| signal.at(*pressure)));
        }
        for ActivePlan { plan, .. } in &active.plans {
            let share = |signal: &Signal, priority: Option<Priority>| {
                let pressure = *pressures.get(&signal.target)?;
                let own = priority.map(|priority| priority.share(pressure));
                Some(own.unwrap_or_else(|| share_at(&signal.ramp, pressure)))
            };
            let least = match &plan.follows {
                Follows::Signals(Signals { each, priority, .. }) => {
                    each.iter().filter_map(|signal| share(signal, *priority)).reduce(f64::min)
                }
                Follows::Urls { ramp, target, .. } => {
                    pressures.get(target).map(|it| share_at(ramp, *it))
                }
            };
            self.runtime.fix(&plan.name(), least.map(|share| share.max(plan.floor_share())));
        }
    }
}

fn rule(
    draft: &mut AdaptiveDraft,
    plan: &Plan,
    signals: &Signals,
    signal_targets: &mut Vec<SignalTarget>,
) -> Result<Rule, String> {
    let mut sources = Vec::new();
    for (index, signal) in signals.each.iter().enumerate() {
        let source = match signal.source {
            Source::QueueWait => Read::QueueWait(draft.target(&signal.target)),
            Source::Errors => Read::Errors(draft.target(&signal.target)),
            Source::Cpu => Read::Cpu,
            Source::MeanLatency | Source::Pool | Source::Fixed(_) | Source::Asked(_) => {
                // A separate target, because a failed reading is consumed when it is read.
                let own = draft.target(&format!("{}\u{1}{index}", plan.name()));
                let pushed = SignalTarget::new(signal, own.clone(), signal_targets)?;
                signal_targets.push(pushed);
                Read::Pushed(own)
            }
        };
        sources.push((signal.chain.clone(), source));
    }
    let warm_up = WarmUp::default().on_start(signals.warm_up_on_start);
    let rule = Rule::from_chains(sources).and_then(|rule| {
        rule.settings(|it| it.mode(plan.mode).warm_up(warm_up).floor(signals.floor))
    });
    let rule = rule.map_err(|error: AdaptiveError| error.to_string())?;
    Ok(match signals.priority {
        Some(priority) => rule.priority(priority),
        None => rule,
    })
}

impl ActivePlans {
    /// Bounds the requests in flight to targets whose pool size is configured; the smallest pool counts. Plans in shadow
    /// mode bound nothing.
    fn cap(&self, listeners: &BTreeMap<String, Target>) {
        for (name, target) in listeners {
            let plans = || self.plans.iter().map(|active| &active.plan);
            let known = plans().filter_map(|plan| plan.pool_of(name)?.known()).min();
            target.set_pool_size(known);
            let enforced = plans().filter(|plan| plan.mode == Mode::Enforce);
            let pool = enforced.filter_map(|plan| plan.pool_of(name)).min_by_key(|it| it.most());
            // The configuration has checked the number.
            target.set_cap(pool.and_then(|pool| pool.cap().ok()));
        }
    }
}

impl Prepared {
    /// Attaches the adaptive limits to a policy.
    pub(crate) fn adapt(&self, name: &str, policy: Policy) -> Policy {
        let own = self.active.plans.iter().filter(|active| active.plan.policy == name);
        own.fold(policy, |policy, active| policy.adaptive(&active.plan.limit, &active.effective))
    }

    /// The limits of a policy that follow URLs, by name.
    pub(crate) fn url_limits(&self, name: &str) -> Vec<(String, Effective)> {
        let own = |it: &&ActivePlan| {
            it.plan.policy == name && matches!(it.plan.follows, Follows::Urls { .. })
        };
        let limit = |it: &ActivePlan| (it.plan.limit.clone(), it.effective.clone());
        self.active.plans.iter().filter(own).map(limit).collect()
    }

    /// The limits of a policy whose refusals have their own status under load.
    pub(crate) fn shedding(&self, name: &str) -> Vec<SheddingLimit> {
        let own = |it: &&ActivePlan| {
            it.plan.policy == name && it.plan.shed_status != StatusCode::TOO_MANY_REQUESTS
        };
        let shedding = |ActivePlan { plan, effective }: &ActivePlan| SheddingLimit {
            effective: effective.clone(),
            units: plan.units,
            status: plan.shed_status,
        };
        self.active.plans.iter().filter(own).map(shedding).collect()
    }
}
