//! Many nodes, one limit: who has agreed in the same tick has the same in force.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tidegate::adaptive::{Adaptive, Chain, Reading, Rule, Source};
use tidegate::{ManualClock, MemoryStore, StoreErrorKind};

use tidegate_testkit::fleet::{Fleet, governed};
use tidegate_testkit::scripted::{Scripted, Way};

const SECOND: Duration = Duration::from_secs(1);

fn memory() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::default())
}

#[tokio::test]
async fn all_nodes_agree_on_what_the_middle_one_sees() {
    let mut fleet = Fleet::new(5, &memory());
    for _ in 0..60 {
        fleet.second(&[(0, 0.0), (1, 0.1), (2, 0.4), (3, 0.9), (4, 1.0)]).await;
    }
    assert_eq!((fleet.units(), fleet.alone()), (vec![600; 5], 0));
}

#[tokio::test]
async fn a_lost_node_has_no_say_any_more() {
    let mut fleet = Fleet::new(3, &memory());
    for _ in 0..30 {
        fleet.second(&[(0, 0.8), (1, 0.8), (2, 0.0)]).await;
    }
    assert_eq!(fleet.units(), [200; 3]);
    for _ in 0..300 {
        fleet.second(&[(2, 0.0)]).await;
    }
    assert_eq!(fleet.units()[2], 1000);
    // It comes back, and takes over what holds.
    fleet.second(&[(2, 0.0), (0, 0.8)]).await;
    assert_eq!(fleet.units()[0], 1000);
}

/// Once in a tick, whoever comes: a node that asks ten times as often does not move it ten times as fast.
#[tokio::test]
async fn a_tick_is_one_step() {
    let mut fleet = Fleet::new(2, &memory());
    fleet.second(&[(0, 0.0), (1, 0.0)]).await;
    fleet.second(&[(0, 1.0), (1, 1.0)]).await;
    fleet.second(&[(0, 1.0), (1, 1.0)]).await;
    let after_one = fleet.units();
    let version = fleet.nodes[0].status()[0].output.version;
    for _ in 0..10 {
        for node in &fleet.nodes {
            node.target("db").push(Reading::Value(1.0));
            node.tick().await;
        }
    }
    fleet.check();
    assert_eq!(fleet.units(), after_one);
    assert_eq!(fleet.nodes[1].status()[0].output.version, version);
}

#[tokio::test]
async fn without_the_store_each_goes_by_itself_and_comes_back() {
    let store = Scripted::new(Way::AtOnce);
    let mut fleet = Fleet::new(2, &store);
    for _ in 0..30 {
        fleet.second(&[(0, 0.5), (1, 0.5)]).await;
    }
    assert_eq!((fleet.units(), fleet.alone()), (vec![500; 2], 0));
    store.behave(Way::Fails(StoreErrorKind::Unreachable));
    fleet.second(&[(0, 0.5), (1, 0.5)]).await;
    assert_eq!((fleet.units(), fleet.alone()), (vec![500; 2], 2), "from where they were");
    for _ in 0..30 {
        fleet.second(&[(0, 0.9), (1, 0.5)]).await;
    }
    assert_eq!(fleet.units(), [100, 500]);
    store.behave(Way::AtOnce);
    for _ in 0..3 {
        fleet.second(&[(0, 0.9), (1, 0.9)]).await;
    }
    assert_eq!(fleet.alone(), 0);
    let units = fleet.units();
    assert_eq!(units[0], units[1]);
}

#[tokio::test]
async fn an_operator_on_one_node_speaks_for_all() {
    let mut fleet = Fleet::new(5, &memory());
    fleet.nodes[3].target("db").fix(Some(0.7));
    for _ in 0..30 {
        fleet.second(&[(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0), (4, 0.0)]).await;
    }
    assert_eq!(fleet.units(), [300; 5]);
}

#[tokio::test]
async fn nodes_with_other_settings_do_not_meddle() {
    let (store, clock) = (memory(), ManualClock::default());
    let node = || Adaptive::shared_over(store.clone(), clock.clone());
    let (one, other) = (governed(node()), node());
    let rule =
        Rule::from_chains([(Chain::pressure("db"), Source::Pushed(other.target("db")))]).unwrap();
    let rule = rule.settings(|it| it.floor(100)).unwrap();
    other.govern("search", 1000, rule).unwrap();
    for _ in 0..30 {
        clock.advance(SECOND);
        for (node, pressure) in [(&one, 0.2), (&other, 1.0)] {
            node.target("db").push(Reading::Value(pressure));
            node.tick().await;
        }
    }
    assert_eq!((one.status()[0].units, other.status()[0].units), (800, 100));
}

/// A store that loses its memory: what a node knows is where it goes on from, so that nothing opens by it.
#[tokio::test]
async fn a_store_without_memory_opens_nothing() {
    let clock = ManualClock::default();
    let mut units = Vec::new();
    let first = Arc::new(Scripted::new(Way::AtOnce));
    let node = governed(Adaptive::shared_over(first.clone(), clock.clone()));
    for second in 0..40 {
        if second == 20 {
            first.behave(Way::Forgets);
        }
        clock.advance(SECOND);
        node.target("db").push(Reading::Value(0.8));
        node.tick().await;
        units.push(node.status()[0].units);
    }
    assert!(units[15..].iter().all(|units| *units == 200), "{units:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    // In whichever order nodes come in each tick, and whoever is missing in some: the same limit, tick by tick.
    #[test]
    fn the_order_of_nodes_does_not_matter(
        seconds in prop::collection::vec((prop::collection::vec(0.0..1.0_f64, 4), any::<u8>(), any::<u64>()), 1..20)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let (mut straight, mut mixed) = (Fleet::new(4, &memory()), Fleet::new(4, &memory()));
            for (pressures, present, order) in seconds {
                let mut reports: Vec<_> = pressures.into_iter().enumerate().collect();
                reports.retain(|(node, _)| present >> node & 1 == 1);
                straight.second(&reports).await;
                let turn = usize::try_from(order % 4).unwrap();
                if !reports.is_empty() {
                    let turn = turn % reports.len();
                    reports.rotate_left(turn);
                }
                if order & 4 == 0 {
                    reports.reverse();
                }
                mixed.second(&reports).await;
                // Those who came have the same; and each fleet agreed with itself all the time.
                for (node, _) in reports {
                    assert_eq!(straight.nodes[node].status()[0].units, mixed.nodes[node].status()[0].units);
                }
            }
        });
    }
}
