//! Limits that follow the load of what they protect: what a [`Plan`] says, put to work.
//!
//! The library's [`Adaptive`] decides once a second how much of a limit is in force. Here it is told what to go by:
//! [`feeds`] ask over HTTP and measure, doors tell [`Observed`], operators say what they know better.

mod asking;
mod feeds;
mod view;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use axum::http::StatusCode;
use tidegate::adaptive::{
    Adaptive, AdaptiveError, Draft as AdaptiveDraft, Mode, Priority, Reading, Rule, Source as Read,
    Target, WarmUp,
};
use tidegate::{Effective, Policy, Store, SystemClock};
use tokio::task::JoinSet;

use self::feeds::Fed;
pub(crate) use self::view::Moving;
use crate::stats::Observed;
use tidegate_config::plan::{self, By, Plan, Signal, Signals, Source, share_at};

/// Lets limits follow. There is one, and it outlives reloads.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    runtime: Adaptive,
    observed: Arc<Observed>,
    following: ArcSwap<Following>,
    /// Ends with what it feeds.
    feeds: Mutex<JoinSet<()>>,
}

/// What is followed now.
#[derive(Debug, Default)]
struct Following {
    plans: Vec<Followed>,
    /// Those whom somebody else than the library tells.
    fed: Vec<Fed>,
}

/// A plan at work.
#[derive(Debug)]
struct Followed {
    plan: Plan,
    effective: Effective,
}

/// Limits that are about to follow, once the rest of their configuration turns out well. Dropped, it changes nothing.
#[derive(Debug)]
pub(crate) struct Prepared {
    following: Following,
    draft: AdaptiveDraft,
}

/// A limit whose refusals have a status of their own while the load reduces it.
#[derive(Debug)]
pub(crate) struct Shedding {
    pub(crate) effective: Effective,
    /// All of its units.
    pub(crate) units: u64,
    pub(crate) status: StatusCode,
}

impl Follower {
    /// One that agrees with all others over the store.
    pub(crate) fn shared_over(store: Arc<dyn Store>) -> Self {
        Self { runtime: Adaptive::shared_over(store, SystemClock), ..Self::default() }
    }

    /// What doors tell about the services behind them.
    pub(crate) const fn observed(&self) -> &Arc<Observed> {
        &self.observed
    }

    /// What is planned, ready to be [followed](Self::follow). A limit that has followed before will go on from where it
    /// was.
    pub(crate) fn prepare(&self, plans: &[Plan]) -> Result<Prepared, String> {
        let mut following = Following::default();
        let mut draft = self.runtime.draft();
        for plan in plans.iter().filter(|plan| plan.mode != Mode::Off) {
            let effective = match &plan.by {
                By::Urls { ramp, target } => {
                    let target = draft.target(target);
                    draft.govern_urls(&plan.name(), plan.units, *ramp, &target, plan.mode)
                }
                By::Signals(signals) => {
                    let rule = rule(&mut draft, plan, signals, &mut following.fed);
                    let rule =
                        rule.map_err(|error| format!("policy `{}`: {error}", plan.shown()))?;
                    let governed = draft.govern(&plan.name(), plan.units, rule);
                    governed.map_err(|error| format!("policy `{}`: {error}", plan.shown()))?
                }
            };
            following.plans.push(Followed { plan: plan.clone(), effective });
        }
        Ok(Prepared { following, draft })
    }

    /// Follows what was prepared, and nothing else.
    pub(crate) fn follow(&self, Prepared { following: next, draft }: Prepared) {
        draft.install();
        let names: HashSet<_> = next.plans.iter().map(|followed| followed.plan.name()).collect();
        let listeners = self.listeners(&next);
        next.cap(&listeners);
        self.observed.tell(listeners);
        let is_any = !next.plans.is_empty();
        let feeds = feeds::start(&next.fed, &self.observed);
        *self.feeds.lock().unwrap_or_else(PoisonError::into_inner) = feeds;
        self.following.store(Arc::new(next));
        // Last, when nothing holds what was followed before.
        self.runtime.retain(|name| names.contains(name));
        self.go_by_operators();
        if is_any {
            // Once for all; what follows nothing does not tick.
            self.runtime.start();
        }
    }

    /// Who is told what is observed, by the name of the target.
    fn listeners(&self, next: &Following) -> BTreeMap<String, Target> {
        let names = next.plans.iter().flat_map(|followed| followed.plan.observed());
        names.map(|name| (name.to_owned(), self.runtime.target(name))).collect()
    }

    /// Takes over how full a pool is said to be.
    pub(crate) fn saturated(&self, target: &str, saturation: f64) {
        for (signal, own) in &self.following.load().fed {
            if signal.source == Source::Pool && signal.target == target {
                own.push(Reading::Value(saturation));
            }
        }
    }

    /// Goes by what operators say of targets, whatever signals say.
    pub(crate) fn go_by_operators(&self) {
        let (said, following) = (self.observed.said(), self.following.load());
        for (signal, own) in &following.fed {
            own.fix(said.get(&signal.target).map(|pressure| signal.at(*pressure)));
        }
        for Followed { plan, .. } in &following.plans {
            let share = |signal: &Signal, priority: Option<Priority>| {
                let pressure = *said.get(&signal.target)?;
                let own = priority.map(|priority| priority.share(pressure));
                Some(own.unwrap_or_else(|| share_at(&signal.ramp, pressure)))
            };
            let least = match &plan.by {
                By::Signals(Signals { each, priority, .. }) => {
                    each.iter().filter_map(|signal| share(signal, *priority)).reduce(f64::min)
                }
                By::Urls { ramp, target } => said.get(target).map(|it| share_at(ramp, *it)),
            };
            self.runtime.fix(&plan.name(), least.map(|share| share.max(plan.floor_share())));
        }
    }
}

fn rule(
    draft: &mut AdaptiveDraft,
    plan: &Plan,
    signals: &Signals,
    fed: &mut Vec<Fed>,
) -> Result<Rule, AdaptiveError> {
    let read = |(index, signal): (usize, &Signal)| {
        let source = match signal.source {
            Source::QueueWait => Read::QueueWait(draft.target(&signal.target)),
            Source::Errors => Read::Errors(draft.target(&signal.target)),
            Source::Cpu => Read::Cpu,
            Source::MeanLatency | Source::Pool | Source::Fixed(_) | Source::Asked(_) => {
                // Nobody else reads it: what failed is read once.
                let own = draft.target(&format!("{}\u{1}{index}", plan.name()));
                fed.push((signal.clone(), own.clone()));
                Read::Pushed(own)
            }
        };
        (signal.chain.clone(), source)
    };
    let rule = Rule::from_chains(signals.each.iter().enumerate().map(read))?;
    let warm_up = WarmUp::default().on_start(signals.warm_up_on_start);
    let rule = rule.settings(|it| it.mode(plan.mode).warm_up(warm_up).floor(signals.floor))?;
    Ok(match signals.priority {
        Some(priority) => rule.priority(priority),
        None => rule,
    })
}

impl Following {
    /// Bounds how many are under way to targets whose pool is told; the smallest counts. What is only tried out bounds
    /// nothing.
    fn cap(&self, listeners: &BTreeMap<String, Target>) {
        for (name, target) in listeners {
            let plans = || self.plans.iter().map(|followed| &followed.plan);
            let known = plans().filter_map(|plan| plan.pool_of(name)?.known()).min();
            target.know_pool(known);
            let enforced = plans().filter(|plan| plan.mode == Mode::Enforce);
            let pool = enforced.filter_map(|plan| plan.pool_of(name)).min_by_key(|it| it.most());
            // The configuration has checked the number.
            target.set_cap(pool.and_then(|pool| pool.cap().ok()));
        }
    }
}

impl Prepared {
    /// A policy with its limits that move.
    pub(crate) fn adapt(&self, name: &str, policy: Policy) -> Policy {
        let own = self.following.plans.iter().filter(|followed| followed.plan.policy == name);
        own.fold(policy, |policy, followed| {
            policy.adaptive(&followed.plan.limit, &followed.effective)
        })
    }

    /// The limits of a policy whose refusals have a status of their own under load.
    pub(crate) fn shedding(&self, name: &str) -> Vec<Shedding> {
        let own = |it: &&Followed| {
            it.plan.policy == name && it.plan.shed_status != StatusCode::TOO_MANY_REQUESTS
        };
        let shedding = |Followed { plan, effective }: &Followed| Shedding {
            effective: effective.clone(),
            units: plan.units,
            status: plan.shed_status,
        };
        self.following.plans.iter().filter(own).map(shedding).collect()
    }
}
