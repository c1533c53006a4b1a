use proptest::prelude::*;

use super::*;

fn admitted(report: &Report) -> [u64; 3] {
    report.ways.each_ref().map(|way| way.admitted)
}

#[test]
fn the_later_nodes_hear_of_each_other_the_more_they_admit() {
    for (nodes, limit, window_ms, interval_ms, expected) in [
        (3, 60, 1000, 0, 60),
        (3, 60, 1000, 400, 108),
        (3, 60, 1000, 1000, 180),
        (3, 60, 1000, 5000, 180),
        (10, 100, 5000, 5000, 1000),
        (1, 60, 1000, 1000, 60),
    ] {
        for seed in 1..20 {
            let input = Input { nodes, limit, window_ms, interval_ms, seed };
            let report = run(&input).unwrap();
            assert_eq!(admitted(&report)[..2], [expected, limit], "{input:?}");
            assert!((report.formula - float(expected)).abs() < 1e-6, "{input:?}");
        }
    }
}

#[test]
fn three_nodes_that_are_400_ms_late_admit_36_each() {
    let report = run(&Input::default()).unwrap();
    assert_eq!(report.naive_per_node, [36, 36, 36]);
    assert!((report.ways[0].over_limit_percent - 80.0).abs() < 1e-9);
    assert_eq!((report.curve.len(), report.curve[4].naive), (11, 108));
}

/// Leases may leave a little unused, so that "never more" alone would also hold for one that admits nothing.
#[test]
fn leases_use_most_of_the_limit_with_fewer_calls_than_checks() {
    let report = run(&Input { limit: 1000, ..Input::default() }).unwrap();
    let [_, atomic, leases] = &report.ways;
    assert!((900..=1000).contains(&leases.admitted), "{leases:?}");
    assert!(leases.calls.unwrap() * 5 < atomic.calls.unwrap(), "{leases:?} {atomic:?}");
}

#[test]
fn bounds_hold_for_whoever_asks() {
    let sound = Input::default();
    for (input, field) in [
        (Input { nodes: 0, ..sound.clone() }, "nodes"),
        (Input { nodes: 101, ..sound.clone() }, "nodes"),
        (Input { limit: 0, ..sound.clone() }, "limit"),
        (Input { limit: 10_001, nodes: 1, ..sound.clone() }, "limit"),
        (Input { limit: 10_000, nodes: 4, ..sound.clone() }, "limit"),
        (Input { window_ms: 0, ..sound.clone() }, "window_ms"),
        (Input { interval_ms: 86_400_001, ..sound.clone() }, "interval_ms"),
    ] {
        assert_eq!(run(&input).unwrap_err().field, field, "{input:?}");
    }
    for (nodes, limit) in [(100, 300), (3, 10_000), (1, 1), (100, 1)] {
        for window_ms in [1, 86_400_000] {
            run(&Input { nodes, limit, window_ms, interval_ms: 7, seed: u64::MAX }).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_simulation_is_the_formula_but_for_whole_requests_and_nobody_else_passes_the_limit(
        nodes in 1_u64..20,
        limit in 1_u64..200,
        window_ms in 1_u64..100_000,
        part in 0_u64..=1000,
        seed: u64,
    ) {
        let interval_ms = window_ms * part / 1000;
        let report = run(&Input { nodes, limit, window_ms, interval_ms, seed }).unwrap();
        let [naive, atomic, leases] = admitted(&report);
        // Each node stops at a whole request.
        prop_assert!((float(naive) - report.formula).abs() <= float(nodes), "{report:?}");
        for point in &report.curve {
            prop_assert!((float(point.naive) - point.formula).abs() <= float(nodes), "{point:?}");
        }
        prop_assert_eq!(atomic, limit);
        prop_assert!(leases <= limit, "{:?}", report);
    }
}
