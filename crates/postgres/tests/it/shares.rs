//! Two nodes on a real PostgreSQL share one limit, and never admit more than it admits alone.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::{Engine, ManualClock, Policy, Share};

use crate::support::{open, options, shared_server};

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_hold_the_shared_limit_exactly() {
    let clock = ManualClock::default();
    clock.advance(Duration::from_secs(1_700_000_000));
    let options = options("shares");
    let nodes = [0, 1].map(|_| {
        Engine::builder()
            .store(open(&shared_server().url(), &options))
            .clock(clock.clone())
            .nodes(NonZeroU32::MIN.saturating_add(1))
            .policy("total", Policy::all().limit_by("", "global", "fixed-window 60/day"))
            .policy("api", Policy::share(Share::of("total", "tenant")))
            .build()
            .unwrap()
    });
    let mut admitted = 0;
    for round in 0..30 {
        let tenants = ["first", "second", "third"];
        let asked = tenants.map(|tenant| nodes.each_ref().map(|node| node.check("api", tenant)));
        for reply in asked.into_iter().flatten() {
            admitted += u64::from(reply.await.unwrap().decision.allowed());
        }
        assert!(admitted <= 60, "{admitted} after round {round}");
    }
    assert_eq!(admitted, 60);
}
