//! Sentinels: a failover, and a primary that does not know of it.

use tidegate_testkit::processes::{DEADLINE, RedisSentinel, wait_until};

#[test]
fn a_killed_primary_is_replaced_by_a_replica() {
    let group = RedisSentinel::start();
    assert!(group.url().starts_with("redis+sentinel://127.0.0.1:"));
    assert!(group.url().ends_with("/mymaster"));
    let first = group.master();
    first.command(&["SET", "k", "v"]).text();
    assert_eq!(first.command(&["WAIT", "2", "0"]).text(), "2");
    let replaced = group.failover();
    assert_eq!(replaced.old.port(), first.port());
    assert_eq!(replaced.new.port(), group.master().port());
    assert_eq!(replaced.new.command(&["GET", "k"]).text(), "v");
    assert_eq!(replaced.new.command(&["SET", "k", "w"]).text(), "OK");
}

#[test]
fn a_zombie_takes_writes_until_the_sentinels_demote_it() {
    let group = RedisSentinel::start();
    let zombie = group.zombie();
    assert_eq!(zombie.old.command(&["SET", "k", "lost"]).text(), "OK");
    assert_eq!(zombie.new.command(&["SET", "k", "kept"]).text(), "OK");
    wait_until("the zombie to be demoted", 3 * DEADLINE, || zombie.old.is_copy());
    group.wait_until_well();
    assert_eq!(zombie.old.command(&["GET", "k"]).text(), "kept");
}
