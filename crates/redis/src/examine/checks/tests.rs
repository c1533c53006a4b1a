//! Rows: lines of `INFO` and of `CONFIG`, and the findings they make.

use super::*;
use crate::examine::facts::{Fields, KeySample, Permissions, Role, Skew, SlowLog};
use tidegate::driver::Severity;

/// Facts from `name:value` pairs separated by blanks; `__` stands for a blank within a value.
fn facts(info: &str, config: &str) -> Facts {
    let lines = |text: &str| text.replace(' ', "\n").replace("__", " ");
    Facts {
        cli: "redis-cli".to_owned(),
        prefix: "tg".to_owned(),
        nodes: 3,
        info: Fields::read(&lines(info)),
        config: Fields::read(&lines(config)),
        ..Facts::default()
    }
}

/// Each finding as `severity check`; one that is not ok has a remedy, or at least a risk.
fn summary(findings: &[Finding]) -> String {
    for finding in findings.iter().filter(|finding| finding.severity > Severity::Ok) {
        assert!(finding.risk.is_some() || finding.seen.contains("without effect"), "{finding:?}");
        let must = finding.severity > Severity::Note;
        assert!(
            finding.remedy.is_some() || !must || finding.seen.contains("loading"),
            "{finding:?}"
        );
    }
    let summary = |it: &Finding| format!("{} {}", it.severity.as_str(), it.check);
    findings.iter().map(summary).collect::<Vec<_>>().join(", ")
}

fn rows(checks: &[Check], rows: &[(&str, &str, &str)]) {
    for (info, config, expected) in rows {
        assert_eq!(summary(&run(checks, &facts(info, config))), *expected, "{info} / {config}");
    }
}

#[test]
fn versions() {
    rows(
        server::CHECKS,
        &[
            ("redis_version:4.0.14", "", "fault version"),
            ("redis_version:6.0.16", "", "warning version"),
            ("redis_version:6.2.20", "", "note version"),
            ("redis_version:7.0.15", "", "ok version"),
            ("redis_version:8.2.2", "", "ok version"),
            ("redis_version:7.0.15 redis_mode:sentinel", "", "fault version"),
            ("redis_version:7.2.4 valkey_version:8.1.0", "", "ok version"),
            ("redis_version:7.4.0 dragonfly_version:df-v1.27", "", "note version"),
            ("", "", ""),
        ],
    );
}

#[test]
fn memory_and_eviction() {
    let used = "used_memory:1000000 used_memory_rss:2000000";
    rows(
        memory::CHECKS,
        &[
            (used, "maxmemory:0 maxmemory-policy:noeviction", "warning maxmemory, ok eviction"),
            (used, "maxmemory:0 maxmemory-policy:allkeys-lru", "warning maxmemory, note eviction"),
            (used, "maxmemory:9000000 maxmemory-policy:noeviction", "ok maxmemory, ok eviction"),
            (
                used,
                "maxmemory:9000000 maxmemory-policy:allkeys-lru",
                "ok maxmemory, warning eviction",
            ),
            (
                used,
                "maxmemory:9000000 maxmemory-policy:volatile-ttl",
                "ok maxmemory, warning eviction",
            ),
            (
                used,
                "maxmemory:1200000 maxmemory-policy:noeviction",
                "warning maxmemory, ok eviction",
            ),
            (used, "maxmemory:1000000 maxmemory-policy:noeviction", "fault maxmemory, ok eviction"),
            (
                "used_memory:1000000 maxmemory:1000000 maxmemory_policy:allkeys-lru evicted_keys:7",
                "",
                "warning maxmemory, warning eviction, warning evicted",
            ),
            (
                "used_memory:1 total_system_memory:1000",
                "maxmemory:2000 maxmemory-policy:noeviction lazyfree-lazy-eviction:no",
                "warning maxmemory, ok eviction, ok lazyfree",
            ),
            (
                "used_memory:1",
                "maxmemory:9 maxmemory-policy:allkeys-lfu lazyfree-lazy-eviction:no",
                "ok maxmemory, warning eviction, note lazyfree",
            ),
            ("used_memory:100000000 used_memory_rss:110000000", "", "ok fragmentation"),
            ("used_memory:100000000 used_memory_rss:190000000", "", "note fragmentation"),
            ("used_memory:100000000 used_memory_rss:50000000", "", "warning fragmentation"),
        ],
    );
}

#[test]
fn persistence_and_disk() {
    rows(
        persistence::CHECKS,
        &[
            ("", "appendonly:no save:", "note persistence"),
            ("", "appendonly:no save:3600__1", "note persistence"),
            ("", "appendonly:yes appendfsync:everysec", "ok persistence"),
            ("", "appendonly:yes appendfsync:always", "warning persistence"),
            ("", "appendonly:yes appendfsync:no no-appendfsync-on-rewrite:no", "note persistence"),
            (
                "aof_delayed_fsync:3",
                "appendonly:yes appendfsync:everysec no-appendfsync-on-rewrite:yes",
                "ok persistence, note aof-rewrite, note aof-delayed",
            ),
            ("aof_enabled:0", "", ""),
            ("rdb_last_bgsave_status:ok", "", "ok disk"),
            ("rdb_last_bgsave_status:err", "", "fault disk"),
            ("rdb_last_bgsave_status:err", "stop-writes-on-bgsave-error:no", "warning disk"),
            ("aof_last_write_status:err rdb_last_bgsave_status:ok", "", "fault disk"),
            ("loading:1", "", "fault disk"),
        ],
    );
}

#[test]
fn connections() {
    rows(
        clients::CHECKS,
        &[
            ("connected_clients:1 maxclients:10000", "", "ok maxclients"),
            ("connected_clients:1", "maxclients:29", "warning maxclients"),
            ("connected_clients:75", "maxclients:100", "warning maxclients"),
            ("rejected_connections:2", "", "warning rejected"),
            ("", "timeout:0 tcp-keepalive:300", "ok idle, ok keepalive"),
            ("", "timeout:60 tcp-keepalive:0", "note idle, note keepalive"),
            ("blocked_clients:2", "lua-time-limit:5000", "note blocked, ok busy"),
            ("blocked_clients:0", "busy-reply-threshold:10", "ok blocked, note busy"),
        ],
    );
}

#[test]
fn replicas() {
    let one = |rest: &str| format!("role:master connected_slaves:1 slave0:ip=h,port=1,{rest}");
    rows(
        replication::CHECKS,
        &[
            ("role:master connected_slaves:0", "min-replicas-to-write:0", "note replication"),
            (
                "role:master connected_slaves:0",
                "min-replicas-to-write:1",
                "note replication, fault min-replicas",
            ),
            (
                &one("state=online,offset=9,lag=0"),
                "min-replicas-to-write:0",
                "ok replication, note min-replicas",
            ),
            (
                &one("state=online,offset=9,lag=30"),
                "min-replicas-to-write:1",
                "warning replication, ok min-replicas",
            ),
            (&one("state=wait_bgsave,offset=0,lag=0"), "", "warning replication"),
            ("role:slave master_host:h master_port:1", "", "fault replication"),
            ("", "", ""),
        ],
    );
    let mut replica = facts("role:slave master_link_status:up", "");
    replica.role = Role::Replica;
    assert_eq!(summary(&run(replication::CHECKS, &replica)), "ok replication");
    replica.info = Fields::read("role:slave\nmaster_link_status:down");
    assert_eq!(summary(&run(replication::CHECKS, &replica)), "warning replication");
}

#[test]
fn clusters() {
    let mut node = facts("cluster_enabled:1", "");
    assert_eq!(summary(&run(cluster::CHECKS, &node)), "fault cluster");
    node.role = Role::Primary;
    for (state, assigned, pfail, fail, expected) in [
        ("ok", 16_384, 0, 0, "ok cluster"),
        ("ok", 16_384, 5, 0, "warning cluster"),
        ("ok", 16_384, 0, 5, "fault cluster"),
        ("ok", 16_383, 0, 0, "fault cluster"),
        ("fail", 16_384, 0, 0, "fault cluster"),
    ] {
        node.cluster = Fields::read(&format!(
            "cluster_state:{state}\ncluster_slots_assigned:{assigned}\n\
             cluster_slots_pfail:{pfail}\ncluster_slots_fail:{fail}"
        ));
        assert_eq!(summary(&run(cluster::CHECKS, &node)), expected);
    }
}

#[test]
fn times_and_clocks() {
    let facts_of = |pings_us| Facts { pings_us, ..facts("", "") };
    assert_eq!(summary(&run(latency::CHECKS, &facts_of(vec![100]))), "ok round-trip");
    assert_eq!(summary(&run(latency::CHECKS, &facts_of(vec![25_000]))), "fault round-trip");
    for (ahead_us, within_us, expected) in [
        (-400, 100, "ok clock"),
        (1_500_000, 100, "note clock"),
        (-1_500_000, 100, "note clock"),
        (1_500_000, 900_000, "ok clock"),
    ] {
        let facts = Facts { skew: Some(Skew { ahead_us, within_us }), ..facts("", "") };
        assert_eq!(summary(&run(latency::CHECKS, &facts)), expected);
    }
    for (entries, slowest_us, expected) in
        [(0, 0, "ok slowlog"), (9, 15_000, "ok slowlog"), (9, 45_000, "note slowlog")]
    {
        let facts = Facts { slow: Some(SlowLog { entries, slowest_us }), ..facts("", "") };
        assert_eq!(summary(&run(latency::CHECKS, &facts)), expected);
    }
    let facts = Facts { events: vec![("fork".into(), 3), ("command".into(), 40)], ..facts("", "") };
    assert_eq!(summary(&run(latency::CHECKS, &facts)), "note latency-events");
}

#[test]
fn keys_and_packing() {
    for (keys, expected) in [
        (KeySample { all: true, ..KeySample::default() }, "ok ttl"),
        (KeySample { looked_at: 9, all: true, ..KeySample::default() }, "ok ttl, ok big-keys"),
        (
            KeySample { looked_at: 9, without_ttl: 1, ..KeySample::default() },
            "warning ttl, ok big-keys",
        ),
        (KeySample { looked_at: 9, big: 1, ..KeySample::default() }, "ok ttl, note big-keys"),
    ] {
        let facts = Facts { keys: Some(keys), ..facts("", "") };
        assert_eq!(summary(&run(keys::CHECKS, &facts)), expected);
    }
    rows(
        keys::CHECKS,
        &[
            (
                "",
                "zset-max-listpack-entries:128 list-max-listpack-size:-2",
                "ok zset-packing, ok list-packing",
            ),
            (
                "",
                "zset-max-ziplist-entries:0 list-max-ziplist-size:8",
                "note zset-packing, note list-packing",
            ),
            (
                "",
                "zset-max-listpack-entries:5000 list-max-listpack-size:-5",
                "note zset-packing, note list-packing",
            ),
        ],
    );
}

#[test]
fn who_may_do_what() {
    let mut of = facts("", "bind:127.0.0.1__-::1 protected-mode:yes");
    of.permissions = Some(Permissions::default());
    assert_eq!(summary(&run(access::CHECKS, &of)), "ok permissions, ok exposure");
    of.permissions = Some(Permissions { missing: vec!["eval", "lset"], no_keys: true });
    of.user = "app".to_owned();
    let findings = run(access::CHECKS, &of);
    assert_eq!(summary(&findings), "fault permissions, ok exposure");
    let remedy = findings[0].remedy.as_deref().unwrap();
    assert_eq!(remedy, "as an administrator: ACL SETUSER app '~tg:*' '+eval' '+lset'");
    of.permissions = None;
    for (anonymous, in_clear, config, expected) in [
        (true, false, "bind:*__-::* protected-mode:yes", "note exposure"),
        (true, false, "bind:*__-::* protected-mode:no", "warning exposure"),
        (true, false, "bind: protected-mode:no", "warning exposure"),
        (false, false, "bind:* protected-mode:no", "ok exposure"),
        (false, true, "bind:* protected-mode:no", "note exposure"),
        (true, false, "", ""),
    ] {
        let of = Facts { anonymous, in_clear, ..facts("", config) };
        assert_eq!(summary(&run(access::CHECKS, &of)), expected, "{config}");
    }
}

#[test]
fn what_may_not_be_looked_at_is_a_note() {
    let of = Facts { forbidden: vec!["CONFIG", "SLOWLOG"], ..facts("", "") };
    let findings = all(&of);
    assert_eq!(summary(&findings), "note permitted");
    assert!(findings[0].seen.contains("not permitted to look: CONFIG, SLOWLOG"));
}

#[test]
fn sizes_are_told_for_people() {
    for (count, text) in
        [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB")]
    {
        assert_eq!(bytes(count), text);
    }
}
