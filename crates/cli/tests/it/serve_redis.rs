//! Several servers over one Redis: one limit, and answers during an outage.

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
