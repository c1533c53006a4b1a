//! Several servers over one Redis: one limit, and answers during an outage.

use std::time::{Duration, Instant};

use crate::processes::{ClusterShape, DEADLINE, RedisCluster, RedisServer, wait_until};
use crate::support::{Folder, Server};

fn server(redis: &RedisServer) -> Server {
    Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()])
}

/// The source of a decision of `api`.
fn source(server: &Server) -> String {
    let answer = server.post("/v1/check", r#"{"policy":"api","key":"probe","cost":0}"#).json();
    answer["source"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn three_servers_share_one_limit() {
    let redis = RedisServer::start();
    let servers = [server(&redis), server(&redis), server(&redis)];
    for server in &servers {
        wait_until("a server counts in Redis", DEADLINE, || source(server) == "store");
    }
    let check = |server: &Server| {
        let reply = server.post("/v1/check", r#"{"policy":"login","key":"user-42"}"#);
        reply.json()["allowed"].as_bool().unwrap()
    };
    let admitted = (0..12).filter(|turn| check(&servers[turn % 3])).count();
    assert_eq!(admitted, 5);
}

#[test]
fn a_redis_outage_is_not_a_refusal_and_checks_recover() {
    let redis = RedisServer::start();
    let server = server(&redis);
    wait_until("the server counts in Redis", DEADLINE, || source(&server) == "store");
    redis.kill();
    wait_until("the server decides locally", DEADLINE, || source(&server) == "local");
    let reset = server.post("/v1/reset", r#"{"policy":"api","key":"user-42"}"#);
    assert_eq!(reset.status, 503, "{}", reset.body);
    assert!(reset.body.contains("urn:tidegate:store-unavailable"), "{}", reset.body);
    assert!(!reset.body.contains(&redis.port().to_string()), "{}", reset.body);
    redis.restart();
    wait_until("the server counts in Redis again", DEADLINE, || source(&server) == "store");
}

/// Without a `ttl`, the refusal would be remembered for a second; without a bound, for an hour.
#[test]
fn a_refusal_is_remembered_for_the_ttl_of_the_deny_cache() {
    const TTL: Duration = Duration::from_secs(3);
    let (folder, redis) = (Folder::new(), RedisServer::start());
    let config = format!(
        "store: {{ url: '{}', deadline: 10s }}\n\
         policies: {{ login: {{ algorithm: sliding-log, limit: 1/h, deny_cache: {{ ttl: {}s }} }} }}\n",
        redis.url(),
        TTL.as_secs()
    );
    let server = Server::with_config(&folder, &config);
    let check = || {
        let answer = server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#).json();
        (answer["allowed"] == true, answer["source"].as_str().unwrap().to_owned())
    };
    assert_eq!(check(), (true, "store".to_owned()));
    #[allow(clippy::disallowed_methods, reason = "how long Redis is not asked")]
    let refused = Instant::now();
    assert_eq!(check(), (false, "store".to_owned()));
    // Redis would now allow it.
    redis.command(&["FLUSHALL"]);
    assert_eq!(check(), (false, "deny-cache".to_owned()));
    wait_until("Redis is asked again", DEADLINE, || check() == (true, "store".to_owned()));
    let remembered = refused.elapsed();
    assert!(remembered >= TTL, "{remembered:?}");
}

/// There is no replica that could confirm.
#[test]
fn charges_that_no_replica_confirms_are_logged_with_their_policies() {
    let (folder, redis) = (Folder::new(), RedisServer::start());
    let replicas = "replicas: { wait: 1, timeout: 1ms";
    let file = folder.write(
        "tidegate.yaml",
        format!(
            "store: {{ url: '{}', deadline: 10s }}\npolicies:\n  plain: 5/h\n  \
             sms: {{ limit: 100/h, {replicas} }} }}\n  \
             strict: {{ limit: 100/h, {replicas}, unconfirmed: deny }} }}\n",
            redis.url()
        ),
    );
    let log = folder.path("log");
    let server = Server::start_logged(&["serve", "-c", &file, "--listen", "127.0.0.1:0"], &log);
    let check = |policy: &str| {
        let body = format!(r#"{{"policy":"{policy}","key":"ann"}}"#);
        server.post("/v1/check", &body).json()["allowed"].clone()
    };
    wait_until("a charge is not confirmed", DEADLINE, || {
        assert_eq!(check("sms"), true, "the answer stands");
        server.metric("tidegate_unreplicated_total").is_some_and(|count| count > 0.5)
    });
    wait_until("the policy and the count are logged", DEADLINE, || {
        let log = std::fs::read_to_string(&log).unwrap();
        let line = log.lines().find(|line| line.contains("too few replicas confirmed"));
        line.is_some_and(|line| line.contains(r#""policies":"sms","count":"#))
    });
}

#[test]
fn the_breaker_opens_for_a_hanging_cluster_node() {
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
    let server =
        Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--store", &cluster.url()]);
    wait_until("the server counts in the cluster", DEADLINE, || source(&server) == "store");
    let hung = cluster.master_of_slot(cluster.slot_of("{5:probe}"));
    hung.pause();
    wait_until("the breaker opens", DEADLINE, || {
        let reset = server.post("/v1/reset", r#"{"policy":"api","key":"probe"}"#);
        reset.status == 503 && reset.body.contains("breaker-open")
    });
    hung.resume();
    wait_until("the server counts in the cluster again", DEADLINE, || source(&server) == "store");
}

#[test]
fn an_atomic_batch_across_cluster_slots_is_refused_as_a_whole() {
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
    let folder = Folder::new();
    let config = "policies: { mail: 5/day, call: 5/day }\n";
    // With a long deadline, because the machine may be busy: a decision without the cluster would use a local limit.
    let store = format!("store: {{ url: \"{}\", deadline: 10s, breaker: false }}\n", cluster.url());
    let server = Server::with_config(&folder, &(store + config));
    let left = |policy, key| server.remaining(policy, key);
    wait_until("the server counts in the cluster", DEADLINE, || {
        let peek = server.post("/v1/peek", r#"{"policy":"mail","key":"probe"}"#).json();
        peek["source"] == "store"
    });
    let batch = |first: &str, second: &str| {
        let check = |policy, key| format!(r#"{{"policy":"{policy}","key":"{key}","cost":2}}"#);
        let checks = [check("mail", first), check("call", second)].join(",");
        server.post("/v1/check/batch", &format!(r#"{{"atomic":true,"checks":[{checks}]}}"#))
    };
    assert_ne!(cluster.slot_of("{3:ann}"), cluster.slot_of("{3:ben}"));
    let refused = batch("ann", "ben");
    assert_eq!(refused.status, 400, "{}", refused.body);
    let problem = refused.json();
    assert_eq!(
        (&problem["type"], &problem["field"]),
        (&"urn:tidegate:bad-input".into(), &"atomic".into())
    );
    assert!(problem["detail"].as_str().unwrap().contains("slot"), "{problem}");
    assert_eq!([left("mail", "ann"), left("call", "ben")], [5, 5], "nothing is charged");
    // All keys of one identifier are in one slot.
    let admitted = batch("ann", "ann").json();
    assert_eq!(admitted["decisions"][1]["source"], "store", "{admitted}");
    assert_eq!([left("mail", "ann"), left("call", "ann")], [3, 3]);
}

#[test]
fn a_stopped_server_returns_its_leases() {
    const ASKED: u64 = 30;
    let (redis, folder) = (RedisServer::start(), Folder::new());
    let config = format!(
        "store: {{ url: \"{}\", deadline: 1s }}\ndrain: 0s\n\
         policies: {{ hot: {{ algorithm: fixed-window, limit: 1000000/day, lease: true }} }}\n",
        redis.url()
    );
    let start = || {
        let server = Server::with_config(&folder, &config);
        let peek = r#"{"policy":"hot","key":"probe"}"#;
        wait_until("a server counts in Redis", DEADLINE, || {
            server.post("/v1/peek", peek).json()["source"] == "store"
        });
        server
    };
    let other = start();
    // The leased units, and those of them that are missing after the stop.
    let run = |key: &str| {
        let mut server = start();
        for _ in 0..ASKED {
            let body = format!(r#"{{"policy":"hot","key":"{key}"}}"#);
            assert_eq!(server.post("/v1/check", &body).json()["allowed"], true);
            // At this rate a lease lasts longer than the shutdown.
            std::thread::sleep(std::time::Duration::from_millis(40));
        }
        let spent = 1_000_000 - other.remaining("hot", key);
        assert_eq!(server.stop("TERM").code(), Some(0));
        (spent - ASKED, 1_000_000 - other.remaining("hot", key) - ASKED)
    };
    // On a busy machine a lease may have expired before the stop.
    let mut runs = ["ann", "ben", "cid", "dan", "eve"].iter().map(|key| run(key));
    assert!(runs.any(|(leased, lost)| leased > 0 && lost == 0), "units were lost each time");
}

/// Two files that differ by a limit on another identifier.
fn signup(redis: &str, mail: bool) -> String {
    let mail = if mail { ", { name: mail, key: mail, limit: 50/day }" } else { "" };
    // With a long deadline, because the machine may be busy: a decision without Redis would use a local limit.
    format!(
        "store: {{ url: \"{redis}\", deadline: 10s, breaker: false }}\n\
         policies:\n  signup: {{ deny_cache: false, all: [{{ name: ip, key: ip, algorithm: fixed-window, limit: 5/day }}{mail}] }}\n"
    )
}

fn sign_up(server: &Server) -> (bool, String) {
    let keys = r#"{"ip":"192.0.2.7","mail":"example.com"}"#;
    let answer =
        server.post("/v1/check", &format!(r#"{{"policy":"signup","keys":{keys}}}"#)).json();
    let source = answer["source"].as_str().unwrap_or_default().to_owned();
    (answer["allowed"].as_bool().unwrap(), source)
}

fn limits_of(server: &Server) -> usize {
    let policies = server.get("/v1/policies").json();
    policies["signup"]["members"].as_array().map_or(1, Vec::len)
}

#[test]
fn a_limit_on_another_identifier_added_or_removed_forgets_nothing() {
    let redis = RedisServer::start();
    let folder = Folder::new();
    let server = Server::with_config(&folder, &signup(&redis.url(), false));
    let file = folder.path("tidegate.yaml");
    wait_until("the server counts in Redis", DEADLINE, || {
        server.post("/v1/peek", r#"{"policy":"signup","keys":{"ip":"x"}}"#).json()["source"]
            == "store"
    });
    assert_eq!(sign_up(&server), (true, "store".to_owned()));
    assert_eq!(sign_up(&server), (true, "store".to_owned()));
    for (mail, admitted) in [(true, 2), (false, 1)] {
        std::fs::write(&file, signup(&redis.url(), mail)).unwrap();
        server.signal("HUP");
        wait_until("the new file is in force", DEADLINE, || {
            limits_of(&server) == 1 + usize::from(mail)
        });
        for _ in 0..admitted {
            assert_eq!(sign_up(&server), (true, "store".to_owned()), "{mail}");
        }
    }
    assert_eq!(sign_up(&server), (false, "store".to_owned()), "five in all");
}

#[test]
fn nodes_with_the_old_and_the_new_file_count_together() {
    let redis = RedisServer::start();
    let folders = [Folder::new(), Folder::new()];
    let servers = [false, true]
        .map(|mail| Server::with_config(&folders[usize::from(mail)], &signup(&redis.url(), mail)));
    for server in &servers {
        wait_until("a server counts in Redis", DEADLINE, || {
            let peek = r#"{"policy":"signup","keys":{"ip":"x","mail":"y"}}"#;
            server.post("/v1/peek", peek).json()["source"] == "store"
        });
    }
    let admitted = (0..14).filter(|turn| sign_up(&servers[turn % 2]).0).count();
    assert_eq!(admitted, 5);
}
