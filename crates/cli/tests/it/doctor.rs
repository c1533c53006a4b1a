//! `tidegate doctor` with real servers: its findings, remedies and exit codes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::processes::{
    AGREEMENT_DEADLINE, ClusterShape, DEADLINE, RedisBuilder, RedisCluster, RedisSentinel,
    RedisServer, wait_for, wait_until,
};
use crate::support::{CommandOutput, Folder, run};

/// A server without findings. Redis' defaults cause two warnings.
fn healthy() -> RedisBuilder {
    RedisServer::builder().max_memory("64mb").config("maxmemory-policy", "noeviction")
}

fn doctor(url: &str, more: &[&str]) -> CommandOutput {
    let output = run(&[&["doctor", "--store", url], more].concat());
    assert_eq!(output.stderr, "", "{url}");
    output
}

/// The findings of one check, as `severity seen`.
fn found(output: &CommandOutput, check: &str) -> Vec<String> {
    let findings: Vec<Value> = serde_json::from_str(&output.stdout).expect(&output.stdout);
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap().to_owned();
    let of_check = findings.iter().filter(|finding| finding["check"] == check);
    of_check.map(|it| format!("{} {}", text(it, "severity"), text(it, "seen"))).collect()
}

/// Expects a finding of `check` that begins with `begins`, and the exit code.
fn finds(url: &str, more: &[&str], check: &str, begins: &str, code: i32) {
    let output = doctor(url, &[&["--json"], more].concat());
    let found = found(&output, check);
    assert!(found.len() == 1 && found[0].starts_with(begins), "{check}: {}", output.stdout);
    assert_eq!(output.code, Some(code), "{}", output.stdout);
    assert!(!output.stdout.contains("hunter"), "{}", output.stdout);
}

#[test]
fn a_healthy_valkey_has_no_faults() {
    let valkey = healthy().valkey().start();
    finds(&valkey.url(), &[], "version", "ok Valkey 9.1", 0);
    finds(&valkey.url(), &[], "script", "ok ", 0);
    finds(&valkey.url(), &[], "permissions", "ok ", 0);
}

#[test]
fn a_healthy_server_has_no_faults_and_no_keys_are_left() {
    let redis = healthy().password("hunter2").start();
    let output = doctor(&redis.url(), &["--json"]);
    assert_eq!(output.code, Some(0), "{}", output.stdout);
    for check in ["reach", "version", "permissions", "maxmemory", "eviction", "script", "clock"] {
        assert!(found(&output, check)[0].starts_with("ok "), "{check}: {}", output.stdout);
    }
    assert!(!output.stdout.contains("hunter2") && !output.stdout.contains("\"fault\""));
    let keys = redis.command(&["KEYS", "*"]).text();
    for key in keys.lines() {
        let expires_in_ms: i64 = redis.command(&["PTTL", key]).text().parse().unwrap();
        assert!(expires_in_ms != -1 && expires_in_ms < 10_000, "{key} {expires_in_ms}");
    }
}

#[test]
fn lines_name_the_server_the_risk_and_a_command() {
    let redis = RedisServer::start();
    let output = doctor(&redis.url(), &[]);
    assert_eq!(output.code, Some(0));
    let (address, port) = (redis.address(), redis.port());
    let line = output.stdout.lines().find(|line| line.starts_with("warning maxmemory")).unwrap();
    let command = format!("remedy: redis-cli -h 127.0.0.1 -p {port} CONFIG SET maxmemory ");
    assert!(line.contains(&address) && line.contains("; risk: ") && line.contains(&command));
    assert!(!output.stdout.contains('\u{1b}'), "{}", output.stdout);
    assert!(output.stdout.trim_end().ends_with("0 faults"), "{}", output.stdout);
}

#[test]
fn the_suggested_remedy_helps() {
    let redis = RedisServer::start();
    finds(&redis.url(), &[], "maxmemory", "warning not set", 0);
    let output = doctor(&redis.url(), &["--json"]);
    let findings: Vec<Value> = serde_json::from_str(&output.stdout).unwrap();
    let finding = findings.iter().find(|finding| finding["check"] == "maxmemory").unwrap();
    let words: Vec<_> = finding["remedy"].as_str().unwrap().split(' ').collect();
    assert_eq!(redis.cli(&words[words.len() - 4..]), "OK");
    finds(&redis.url(), &[], "maxmemory", "ok ", 0);
}

#[test]
fn full_memory_and_eviction_are_found() {
    let lru = healthy().config("maxmemory-policy", "allkeys-lru").start();
    finds(&lru.url(), &[], "eviction", "warning maxmemory-policy is allkeys-lru", 0);
    let full = RedisServer::builder().max_memory("500kb").start();
    finds(&full.url(), &[], "maxmemory", "fault ", 1);
    let output = doctor(&full.url(), &["--json"]);
    assert!(found(&output, "script")[0].contains("OOM"), "{}", output.stdout);
}

#[test]
fn keys_that_never_expire_are_found_under_our_prefix_only() {
    let redis = healthy().start();
    redis.command(&["SET", "other", "1"]);
    redis.command(&["HSET", "tg:{overrides}", "", "1763215200123456 0"]); // may be without an expiry
    finds(&redis.url(), &[], "ttl", "ok ", 0);
    redis.command(&["SET", "tg:{7:user-42}:api:a", "1"]);
    finds(&redis.url(), &[], "ttl", "warning 1 without, of all ", 0);
    finds(&redis.url(), &["--key-prefix", "mine"], "ttl", "ok ", 0);
    redis.command(&["SETEX", "tg:{3:big}:api:l", "60", &"x".repeat(100_000)]);
    finds(&redis.url(), &[], "big-keys", "note 1 in all ", 0);
}

#[test]
fn missing_rights_are_named() {
    let rules = "on >hunter2 ~tg:* +@all";
    let redis = healthy()
        .user("app", rules)
        .user("no-eval", &format!("{rules} -eval -lset"))
        .user("no-keys", "on >hunter2 ~other:* +@all")
        .user("slower", &format!("{rules} -mget -exists"))
        .user("least", "on >hunter2 ~tg:* -@all +eval +evalsha +script|load +time +exists +get +mget +set +del +unlink +hdel +hget +hgetall +hlen +hscan +hset +pexpire +lindex +llen +lrange +lset +ltrim +rpush +zadd +zcard +zrangebyscore +zrem +zremrangebyscore +zrevrange +zscore")
        .start();
    let check = |user: &str, begins: &str, code| {
        finds(&redis.url_as(user, "hunter2"), &[], "permissions", begins, code);
    };
    check("app", "ok ", 0);
    check("no-eval", "fault user no-eval may not EVAL, LSET", 1);
    check("no-keys", "fault user no-keys may not use keys tg:*", 1);
    check("slower", "warning user slower may not EXISTS, MGET", 0);
    check("least", "ok ", 0);
    // A user with only the needed rights cannot run most checks, which is not a fault.
    let least = redis.url_as("least", "hunter2");
    finds(&least, &[], "permitted", "note not permitted to look: INFO, CONFIG", 0);
}

#[test]
fn a_refused_login_is_a_fault() {
    let redis = healthy().password("hunter2").start();
    let address = redis.address();
    let paused = healthy().start();
    paused.pause();
    for (url, begins) in [
        (format!("redis://:hunter3@{address}"), "fault the user or password was not accepted"),
        (format!("redis://{address}"), "fault it wants a password"),
        ("redis://:hunter2@127.0.0.1:1".to_owned(), "fault nothing listens there"),
        ("redis+unix:///nowhere/redis.sock?pass=hunter2".to_owned(), "fault nothing listens there"),
        ("redis+cluster://:hunter2@127.0.0.1:1".to_owned(), "fault nothing listens there"),
        (paused.url(), "fault no answer within 2 s"),
        ("redis://:hunter2@".to_owned(), "fault the URL makes no sense"),
    ] {
        finds(&url, &[], "reach", begins, 1);
    }
}

#[test]
fn connections_and_persistence_are_checked() {
    let redis = healthy()
        .max_clients(40)
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("timeout", "60")
        .start();
    finds(&redis.url(), &["--nodes", "5"], "maxclients", "warning maxclients 40", 0);
    finds(&redis.url(), &[], "maxclients", "ok ", 0);
    finds(&redis.url(), &[], "persistence", "warning AOF, written to disk with every", 0);
    finds(&redis.unix_url(), &[], "idle", "note connections are closed after 60 s", 0);
}

#[test]
fn a_replica_is_a_fault_and_a_primary_with_replicas_is_not() {
    let primary = healthy().start();
    let replica = healthy().replica_of(&primary).start();
    finds(&replica.url(), &[], "replication", "fault a replica of 127.0.0.1:", 1);
    let is_online = || primary.command(&["INFO", "replication"]).text().contains("state=online");
    wait_until("the replica is a copy", DEADLINE, is_online);
    finds(&primary.url(), &[], "replication", "ok 1 replica", 0);
}

#[test]
fn a_clock_difference_is_only_a_note() {
    let redis = healthy().shiftable_clock().start();
    redis.shift_clock_us(-90_000_000);
    finds(&redis.url(), &[], "clock", "note Redis is ", 0);
}

#[test]
fn every_node_of_a_cluster_is_checked() {
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 1 });
    let output = doctor(&cluster.url(), &["--json"]);
    let of = |check: &str| found(&output, check);
    assert_eq!(of("version").len(), 6, "{}", output.stdout);
    assert_eq!(of("permissions").len(), 3, "{}", output.stdout);
    assert!(of("cluster").iter().all(|it| it.starts_with("ok state ok, 16384 of 16384")));
    assert!(of("cluster-copies")[0].starts_with("ok "), "{}", output.stdout);
    // A single node of the cluster is not a store.
    finds(&cluster.nodes()[0].url(), &[], "cluster", "fault it is a node of a cluster", 1);
}

#[test]
fn sentinels_are_asked_for_the_primary_and_its_replicas() {
    let group = RedisSentinel::start();
    let agreed = format!("ok 3 of 3 sentinels answer, and name {}", group.master().address());
    // On a busy machine the sentinels may hold each other for dead at times.
    let output = wait_for("the sentinels to be found well", AGREEMENT_DEADLINE, || {
        let output = doctor(&group.url(), &["--json"]);
        (found(&output, "sentinel") == [agreed.as_str()]).then_some(output)
    });
    let count = |check: &str| found(&output, check).len();
    assert_eq!((count("version"), count("permissions")), (3, 1), "{}", output.stdout);
    let unknown = group.url().replace("mymaster", "nobody");
    finds(&unknown, &[], "sentinel", "fault 3 of 3 sentinels answer, and none knows `nobody`", 1);
    let sentinel = group.sentinels()[0].url();
    finds(&sentinel, &[], "version", "fault a sentinel of Redis", 1);
}

#[test]
fn a_server_behind_tls_is_checked_with_the_given_files() {
    let redis = healthy().mutual_tls().start();
    let files = redis.tls_files();
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (ca, cert, key) = (path(&files.ca), path(&files.client_cert), path(&files.client_key));
    let url = format!("{}?ca={ca}&cert={cert}&key={key}", redis.url());
    finds(&url, &[], "script", "ok ", 0);
    finds(&format!("{}?ca={ca}", redis.url()), &[], "reach", "fault ", 1);
    finds(&redis.url(), &[], "reach", "fault ", 1);
    finds(&format!("{}?ca=/nowhere", redis.url()), &[], "reach", "fault the URL makes no sense", 1);
}

#[test]
fn other_errors_exit_with_1_and_usage_errors_with_64() {
    for (args, code, part) in [
        (&["doctor", "--store", "frob://u:hunter2@h"][..], 1, "`frob:…` is unknown"),
        (&["doctor", "--nodes", "0"], 64, "--nodes"),
        (&["doctor", "--frob"], 64, "--frob"),
    ] {
        let output = run(args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(code), ""), "{args:?}");
        assert!(
            output.stderr.contains(part) && !output.stderr.contains("hunter2"),
            "{}",
            output.stderr
        );
    }
    finds("memory:", &[], "reach", "ok ", 0);
}

/// The bound of a configuration is judged by its store and the number of proxies.
#[test]
fn places_of_the_proxy_are_judged_with_the_store_of_the_file() {
    let (redis, folder) = (healthy().start(), Folder::new());
    let url = redis.url();
    for (store, in_flight, nodes, expected) in [
        (
            url.as_str(),
            "{ max: 200, scope: fleet }",
            "3",
            "ok 200 over the fleet; while the store fails 66",
        ),
        (&url, "{ max: 2, scope: fleet }", "3", "warning 2 over the fleet, which has 3 nodes"),
        (&url, "{ max: 200 }", "3", "note 200 at each of 3 nodes, 600 together"),
        (
            "memory:",
            "{ max: 200, scope: fleet }",
            "1",
            "warning 200 over the fleet, in a store of one",
        ),
    ] {
        let config = folder.write(
            "tidegate.yaml",
            format!(
                "store: \"{store}\"\nlisten: {{ proxy: 127.0.0.1:0 }}\npolicies: {{ api: 5/s }}\n\
                 proxy: {{ upstream: \"http://127.0.0.1:1\", in_flight: {in_flight} }}\n"
            ),
        );
        let output = run(&["doctor", "--json", "-c", &config, "--nodes", nodes]);
        let found = found(&output, "in_flight");
        assert!(found.len() == 1 && found[0].starts_with(expected), "{in_flight}: {found:?}");
        assert_eq!(output.code, Some(0), "{}", output.stdout);
    }
    // The control: without a bound there is nothing to say.
    let config =
        folder.write("tidegate.yaml", format!("store: \"{url}\"\npolicies: {{ api: 5/s }}\n"));
    let output = run(&["doctor", "--json", "-c", &config]);
    assert_eq!(found(&output, "in_flight"), [""; 0], "{}", output.stdout);
}

/// What a server would not start with is a fault, and nothing is left behind.
#[test]
fn the_files_of_a_configuration_are_tried() {
    let folder = Folder::new();
    let secret = "000102030405060708090a0b0c0d0e0f\n";
    let (shown, hidden) = (folder.write("shown", secret), folder.write("hidden", secret));
    let bad = folder.write("bad", "hunter2\n");
    for (file, mode) in [(&shown, 0o644), (&hidden, 0o600), (&bad, 0o600)] {
        fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    }
    let counters = folder.path("counters");
    let (taken, beneath) = (folder.path(""), folder.path("hidden/counters"));
    for (store, check, begins, code) in [
        (
            "{ hash_key_file: /nonexistent/key }",
            "hash-key",
            "fault store.hash_key_file: cannot read",
            1,
        ),
        (&format!("{{ hash_key_file: {bad} }}"), "hash-key", "fault store.hash_key_file: ", 1),
        (&format!("{{ hash_key_file: {shown} }}"), "hash-key", "warning every user", 0),
        (&format!("{{ hash_key_file: {hidden} }}"), "hash-key", "ok ", 0),
        (
            "{ snapshot: /nonexistent/counters }",
            "snapshot",
            "fault store.snapshot: cannot write",
            1,
        ),
        (&format!("{{ snapshot: {beneath} }}"), "snapshot", "fault store.snapshot: cannot ", 1),
        (&format!("{{ snapshot: {counters} }}"), "snapshot", "ok ", 0),
        ("{ snapshot: /dev/null }", "snapshot", "fault store.snapshot: /dev/null is not a file", 1),
    ] {
        let text = format!("store: {store}\npolicies: {{ api: 5/s }}\n");
        let config = folder.write("tidegate.yaml", text);
        let output = run(&["doctor", "--json", "-c", &config]);
        let found = found(&output, check);
        assert!(found.len() == 1 && found[0].starts_with(begins), "{store}: {}", output.stdout);
        assert_eq!(output.code, Some(code), "{store}: {}", output.stdout);
        assert!(!output.stdout.contains("hunter2"), "{}", output.stdout);
    }
    let left = fs::read_dir(taken).unwrap().map(|it| it.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("counters")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_built_in_secret_of_a_shared_store_is_warned_of() {
    let (redis, folder) = (healthy().start(), Folder::new());
    let secret = folder.write("secret", "000102030405060708090a0b0c0d0e0f\n");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let url = redis.url();
    for (store, expected) in [
        (format!("\"{url}\""), Some("warning identifiers that are long or no plain text")),
        (format!("{{ url: \"{url}\", hash_key_file: {secret} }}"), Some("ok ")),
        ("memory".to_owned(), None),
    ] {
        let text = format!("store: {store}\npolicies: {{ api: 5/s }}\n");
        let output = run(&["doctor", "--json", "-c", &folder.write("tidegate.yaml", text)]);
        let found = found(&output, "hash-key");
        let fits = expected.is_none_or(|begins| found.iter().any(|it| it.starts_with(begins)));
        assert!(found.len() == usize::from(expected.is_some()) && fits, "{store}: {found:?}");
        assert_eq!(output.code, Some(0), "{}", output.stdout);
    }
}

/// `--nodes` is what is asked about, and the file's number what counts while the store fails.
#[test]
fn nodes_that_are_given_come_before_those_of_the_file() {
    let (redis, folder) = (healthy().max_clients(40).start(), Folder::new());
    let text =
        format!("store: {{ url: \"{}\", nodes: 2 }}\npolicies: {{ api: 5/s }}\n", redis.url());
    let config = folder.write("tidegate.yaml", text);
    for (nodes, clients, differ) in [
        (&[][..], "ok ", 0),
        (&["--nodes", "2"], "ok ", 0),
        (&["--nodes", "5"], "warning maxclients 40", 1),
    ] {
        let output = run(&[&["doctor", "--json", "-c", &config], nodes].concat());
        let of_clients = found(&output, "maxclients");
        assert!(of_clients[0].starts_with(clients), "{nodes:?}: {}", output.stdout);
        assert_eq!(found(&output, "nodes").len(), differ, "{nodes:?}: {}", output.stdout);
    }
    let output = run(&["doctor", "--json", "-c", &config, "--nodes", "5"]);
    assert_eq!(found(&output, "nodes"), ["note looked at for 5 (--nodes); store.nodes is 2"]);
}
