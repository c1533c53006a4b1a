//! When servers of a quorum that have lost their data count again, for each policy of a configuration.

use std::time::Duration;

use tidegate::driver::{Finding, StoreServer, StoreServerState};
use tidegate::store_kit::written_life_max;
use tidegate::{Clock, Engine, Policy, SystemClock};
use tidegate_config::Config;
use tidegate_core::text::{printable, rfc3339};

/// The most policies that a finding names.
const NAMES_MAX: usize = 10;

/// How long what was written for a policy matters at most.
#[derive(Clone, Debug)]
pub(super) struct PolicyLife {
    policy: String,
    life: Duration,
}

/// Of these policies, those that matter for longest first.
pub(super) fn lives(config: &Config, is_counted: impl Fn(&Policy) -> bool) -> Vec<PolicyLife> {
    let counted = config.policies.iter().filter(|(_, policy)| is_counted(policy));
    let life = |(name, policy): (&String, &Policy)| {
        let engine = Engine::builder().policy(name.clone(), policy.clone()).build().ok()?;
        let life = written_life_max(engine.policy_ref(name).ok()?.state_life_max());
        Some(PolicyLife { policy: printable(name), life })
    };
    let mut lives: Vec<_> = counted.filter_map(life).collect();
    lives.sort_by_key(|it| std::cmp::Reverse(it.life));
    lives
}

/// One finding for each server that does not count for some of these policies.
pub(super) fn findings(servers: &[StoreServer], lives: &[PolicyLife]) -> Vec<Finding> {
    servers.iter().filter_map(|server| finding(server, lives)).collect()
}

fn finding(server: &StoreServer, lives: &[PolicyLife]) -> Option<Finding> {
    let StoreServerState::Forgot { ago } = server.state else { return None };
    let now = SystemClock.now();
    let out: Vec<_> = lives.iter().filter(|it| it.life > ago).collect();
    let until = |it: &&PolicyLife| {
        format!("{} from {}", it.policy, rfc3339(now + it.life.saturating_sub(ago)))
    };
    let mut named: Vec<_> = out.iter().take(NAMES_MAX).map(until).collect();
    if let more @ 1.. = out.len().saturating_sub(NAMES_MAX) {
        named.push(format!("and {more} more before that"));
    }
    let seen = format!("it has lost its data, and counts again for {}", named.join(", "));
    (!named.is_empty()).then(|| {
        Finding::warning("recovering", seen)
            .at(&server.address)
            .risk("until then the other servers have to serve these policies without it")
            .remedy("keep the others running; turn on AOF, so that it keeps its data in the next restart")
    })
}
