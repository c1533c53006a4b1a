//! Two nodes on a real Redis share one limit fairly, and never admit more than it admits alone.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Check, Engine, Key, ManualClock, Op, Policy, Share};
use tidegate_redis::{RedisOptions, RedisStore};
use tidegate_testkit::processes::RedisServer;

use crate::support::LONG_TIMEOUT;

const LIMIT: u64 = 200;
const BURST: u64 = 20;

/// A store that uses the time it is given, so that the run does not depend on how fast the machine is.
fn node(server: &RedisServer, clock: &ManualClock) -> Engine<ManualClock> {
    let options =
        RedisOptions { replays: true, deadline: LONG_TIMEOUT, ..RedisOptions::new(server.url()) };
    let total = format!("{LIMIT}/s burst {BURST}");
    Engine::builder()
        .store(Arc::new(RedisStore::new(options).unwrap()))
        .clock(clock.clone())
        .nodes(NonZeroU32::new(2).unwrap())
        .policy("total", Policy::all().limit_by("", "global", &total))
        .policy(
            "api",
            Policy::share(Share::of("total", "tenant").weights("plan", [("gold", 4)], 1)),
        )
        .build()
        .unwrap()
}

/// What others have spent is theirs.
#[tokio::test]
async fn a_reset_of_a_tenant_leaves_the_shared_limit_alone() {
    let (server, clock) = (RedisServer::start(), ManualClock::default());
    clock.advance(Duration::from_secs(1_700_000_000));
    let node = node(&server, &clock);
    let ask = |op| {
        let check = Check { policy: "api", key: Key::One(b"acme"), cost: 5 };
        let (node, check) = (&node, check);
        async move { node.ask(&check, op).await.unwrap().decision.remaining() }
    };
    assert_eq!(ask(Op::Take).await, BURST - 5);
    ask(Op::Reset).await;
    assert_eq!(ask(Op::Take).await, BURST - 10);
}

#[tokio::test]
async fn two_nodes_on_one_redis_share_fairly() {
    let (server, clock) = (RedisServer::start(), ManualClock::default());
    clock.advance(Duration::from_secs(1_700_000_000));
    let nodes = [node(&server, &clock), node(&server, &clock)];
    // Each asks so often in 10 ms. The loud one asks one node only, the others go round.
    let tenants = [("loud", "", 10), ("gold", "gold", 5), ("quiet", "", 0)];
    let mut admitted = [[0_u64; 3]; 4];
    let (mut turn, mut sum) = (0, 0);
    for step in 0..400_u64 {
        clock.advance(Duration::from_millis(10));
        for (index, (name, plan, times)) in tenants.iter().enumerate() {
            // 25 a second.
            let times = if *name == "quiet" { u64::from(step % 4 == 0) } else { *times };
            for _ in 0..times {
                turn += 1;
                let node = if *name == "loud" { &nodes[0] } else { &nodes[turn % 2] };
                let keys = [("tenant", name.as_bytes()), ("plan", plan.as_bytes())];
                let check = Check { policy: "api", key: Key::Named(&keys), cost: 1 };
                let allowed = node.ask(&check, Op::Take).await.unwrap().decision.allowed();
                admitted[usize::try_from(step / 100).unwrap()][index] += u64::from(allowed);
                sum += u64::from(allowed);
            }
        }
        let most = BURST + LIMIT * (step + 1) / 100;
        assert!(sum <= most, "{sum} of {most} in step {step}");
    }
    // 175 are left by the quiet one: 35 and 140.
    for second in &admitted[2..] {
        let [loud, gold, quiet] = *second;
        assert!((32..=40).contains(&loud) && gold >= 130 && quiet >= 23, "{admitted:?}");
        assert!(loud + gold + quiet >= 190, "{admitted:?}");
    }
    for node in &nodes {
        let status = node.policy_ref("api").unwrap().share_status().unwrap();
        assert!(status.level.is_some_and(|level| (0.15..0.2).contains(&level)), "{status:?}");
    }
}
