//! A cluster: its shape, a failover, a slot half way between two masters.

use tidegate_testkit::processes::{ClusterShape, RedisCluster, Reply};

fn is_error(reply: &Reply, kind: &str) -> bool {
    matches!(reply, Reply::Error(error) if error.starts_with(kind))
}

#[test]
fn a_killed_master_is_replaced_by_its_replica_and_comes_back_as_one() {
    let cluster = RedisCluster::start();
    assert_eq!((cluster.nodes().len(), cluster.masters().len()), (6, 3));
    assert!(cluster.url().starts_with("redis+cluster://127.0.0.1:"));
    assert_eq!(cluster.url().matches("127.0.0.1").count(), 6);

    let slot = cluster.slot_of("k");
    let old = cluster.master_of_slot(slot);
    let replica = cluster.replicas_of(old)[0];
    let new = cluster.failover(slot);
    assert_eq!(new.port(), replica.port());
    assert_eq!(new.command(&["SET", "k", "v"]).text(), "OK");

    old.restart();
    cluster.wait_until_well();
    assert_eq!(cluster.master_of_slot(slot).port(), new.port());
    assert_eq!(old.info("role"), "slave");
}

#[test]
fn a_slot_half_way_between_two_masters_says_ask_and_tryagain() {
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
    let slot = cluster.slot_of("{k}");
    let from = cluster.master_of_slot(slot);
    let to = cluster.masters().into_iter().find(|node| node.port() != from.port()).unwrap();
    let both = ["MGET", "{k}1", "{k}2"];
    assert!(is_error(&to.command(&both), "MOVED"));
    from.command(&["MSET", "{k}1", "1", "{k}2", "2"]).text();

    let slot_move = cluster.slot_move(slot, to);
    slot_move.begin();
    assert_eq!(from.command(&both).text(), "1\n2");
    slot_move.move_key("{k}1");
    assert!(is_error(&from.command(&["GET", "{k}1"]), "ASK"));
    assert!(is_error(&from.command(&both), "TRYAGAIN"));
    slot_move.move_keys();
    assert!(is_error(&from.command(&both), "ASK"));
    slot_move.finish();
    assert!(is_error(&from.command(&both), "MOVED"));
    assert_eq!(to.command(&both).text(), "1\n2");
    cluster.wait_until_well();
    assert_eq!(cluster.master_of_slot(slot).port(), to.port());
}
