//! The load: askers that wait for each answer before they ask again, as tasks of this process.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use tidegate::{Key, Op, Source};
use tidegate_bench::own_cpu_s;
use tidegate_core::Histogram;

use crate::contender::{Contender, Node, SPENT};
use crate::table::Figures;

/// Askers of the scenarios with many.
pub(crate) const ASKERS: usize = 256;

/// The most keys of a scenario.
pub(crate) const KEYS_MAX: usize = 100_000;

/// An asker that never has to wait lets others run after this many checks.
const TURN: usize = 64;

/// Nanoseconds, to 3 %.
type Times = Histogram<5, 40, u32>;

/// What is asked, and by how many.
#[derive(Clone, Copy)]
pub(crate) struct Scenario {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    policy: &'static str,
    keys: usize,
    pub(crate) askers: usize,
    /// Stores that are opened for it; the askers are spread over them.
    nodes: usize,
    /// Of so many checks one is timed, where reading the clock would be a good part of a check.
    timed_every: usize,
}

impl Scenario {
    /// All of them, over this many keys where there are many.
    pub(crate) fn all(keys: usize) -> [Self; 5] {
        let one = Self {
            id: "one-key",
            title: "256 askers, one key",
            policy: "hot",
            keys: 1,
            askers: ASKERS,
            nodes: 1,
            timed_every: 1,
        };
        let many = Self {
            id: MANY_KEYS,
            title: "256 askers over 100,000 keys",
            policy: "api",
            keys,
            ..one
        };
        let two = "256 askers of two nodes, one key";
        let leased = "256 askers, one leased key";
        [
            Self { id: "one-asker", title: "one asker", askers: 1, ..many },
            many,
            one,
            Self { id: "two-nodes", title: two, nodes: 2, ..one },
            Self { id: "leased", title: leased, policy: "leased", timed_every: TURN, ..one },
        ]
    }

    /// Many askers over many keys.
    pub(crate) fn many_keys(keys: usize) -> Self {
        Self::all(keys)[1]
    }
}

pub(crate) const MANY_KEYS: &str = "many-keys";

/// When askers stop.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    After(Duration),
    /// After this many checks of each asker.
    Checks(usize),
}

/// One round of a scenario on an engine.
pub(crate) async fn round(
    contender: &Contender,
    nodes: &[Arc<Node>],
    scenario: Scenario,
    until: Until,
) -> Figures {
    let conflicts = || nodes.iter().map(|node| node.conflicts()).sum::<u64>();
    let (conflicts_before, start) = (conflicts(), Instant::now());
    let (server_before, own_before) = (contender.cpu_s(), own_cpu_s());
    let ask = |asker: usize| {
        let node = nodes[asker % scenario.nodes].clone();
        tokio::spawn(async move { ask(&node, scenario, asker, start, until).await })
    };
    let (mut count, mut times) = (0, Times::default());
    for asker in (0..scenario.askers).map(ask).collect::<Vec<_>>() {
        let (checks, of_asker) = asker.await.expect("an asker");
        count += checks;
        times.merge(&of_asker);
    }
    let (decisions, took) = (count as f64, start.elapsed().as_secs_f64());
    let us = |permille| times.quantile(permille).unwrap_or(0) as f64 / 1e3;
    Figures {
        rate: decisions / took,
        p50_us: us(500),
        p99_us: us(990),
        server_us: (contender.cpu_s() - server_before) * 1e6 / decisions,
        own_us: (own_cpu_s() - own_before) * 1e6 / decisions,
        conflicts: (conflicts() - conflicts_before) as f64 / decisions,
    }
}

/// Asks until it is time to stop; returns how often, and how long answers took.
async fn ask(
    node: &Node,
    scenario: Scenario,
    asker: usize,
    start: Instant,
    until: Until,
) -> (usize, Times) {
    let policy = node.engine.policy(scenario.policy).expect("a policy");
    let (mut count, mut times) = (0, Times::default());
    let mut asked = Instant::now();
    loop {
        let number = scatter((asker << 32) + count) % scenario.keys;
        let answer = policy.check(key(number)).await.expect("an answer");
        assert!(
            matches!(answer.source, Source::Store | Source::Lease),
            "answered by {:?}",
            answer.source
        );
        count += 1;
        if count % scenario.timed_every == 0 {
            let answered = Instant::now();
            times.record(u64::try_from((answered - asked).as_nanos()).unwrap_or(u64::MAX), 1);
            asked = answered;
            let is_over = match until {
                Until::After(time) => answered - start >= time,
                Until::Checks(checks) => count >= checks,
            };
            if is_over {
                return (count, times);
            }
        }
        if count % TURN == 0 {
            tokio::task::yield_now().await;
            asked = Instant::now();
        } else if (count + 1) % scenario.timed_every == 0 {
            asked = Instant::now();
        }
    }
}

/// Has every key spend half of its burst.
pub(crate) async fn fill(node: &Arc<Node>, keys: usize) {
    let fill = |asker: usize| {
        let node = node.clone();
        tokio::spawn(async move {
            let policy = node.engine.policy("api").expect("a policy");
            for number in (asker..keys).step_by(ASKERS) {
                policy.ask(Key::One(key(number)), SPENT, Op::Take).await.expect("an answer");
            }
        })
    };
    for asker in (0..ASKERS).map(fill).collect::<Vec<_>>() {
        asker.await.expect("an asker");
    }
}

/// Keys of 24 bytes, written before they are asked for: that is the caller's work.
static NAMES: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..KEYS_MAX).map(|number| format!("user-{number:019}")).collect());

fn key(number: usize) -> &'static [u8] {
    NAMES[number].as_bytes()
}

/// A cheap pseudo-random sequence that spreads over the keys.
fn scatter(number: usize) -> usize {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}
