//! Several servers over one Redis: one limit, and an answer also while Redis is gone.

use crate::processes::{ClusterShape, DEADLINE, RedisCluster, RedisServer, wait_until};
use crate::support::{Folder, Server};

fn server(redis: &RedisServer) -> Server {
    Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()])
}

/// Who decided a check of `api`.
fn source(server: &Server) -> String {
    let answer = server.post("/v1/check", r#"{"policy":"api","key":"probe","cost":0}"#).json();
    answer["source"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn three_servers_admit_what_one_limit_allows() {
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
fn a_failure_of_redis_is_no_refusal_and_heals() {
    let redis = RedisServer::start();
    let server = server(&redis);
    wait_until("the server counts in Redis", DEADLINE, || source(&server) == "store");
    redis.kill();
    wait_until("the server stands in for it", DEADLINE, || source(&server) == "local");
    let reset = server.post("/v1/reset", r#"{"policy":"api","key":"user-42"}"#);
    assert_eq!(reset.status, 503, "{}", reset.body);
    assert!(reset.body.contains("urn:tidegate:store-unavailable"), "{}", reset.body);
    assert!(!reset.body.contains(&redis.port().to_string()), "{}", reset.body);
    redis.restart();
    wait_until("the server counts in Redis again", DEADLINE, || source(&server) == "store");
}

#[test]
fn a_node_of_a_cluster_that_hangs_is_left_alone() {
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
fn across_the_slots_of_a_cluster_an_atomic_batch_is_refused_whole() {
    let cluster = RedisCluster::start_with(ClusterShape { masters: 3, replicas_each: 0 });
    let folder = Folder::new();
    let config = "policies: { mail: 5/day, call: 5/day }\n";
    // Patient, since the machine may be busy: what is decided without the cluster would be another limit.
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
    let told = refused.json();
    assert_eq!(
        (&told["type"], &told["field"]),
        (&"urn:tidegate:bad-input".into(), &"atomic".into())
    );
    assert!(told["detail"].as_str().unwrap().contains("slot"), "{told}");
    assert_eq!([left("mail", "ann"), left("call", "ben")], [5, 5], "nobody is charged");
    // Of one identifier all is in one slot.
    let admitted = batch("ann", "ann").json();
    assert_eq!(admitted["decisions"][1]["source"], "store", "{admitted}");
    assert_eq!([left("mail", "ann"), left("call", "ann")], [3, 3]);
}

#[test]
fn what_a_server_has_leased_is_there_for_the_others_as_soon_as_it_has_stopped() {
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
    let heir = start();
    // Units out on lease, and what the heir finds once they must be back.
    let run = |key: &str| {
        let mut server = start();
        for _ in 0..ASKED {
            let body = format!(r#"{{"policy":"hot","key":"{key}"}}"#);
            assert_eq!(server.post("/v1/check", &body).json()["allowed"], true);
            // A demand at which leases are kept for longer than it takes to stop.
            std::thread::sleep(std::time::Duration::from_millis(40));
        }
        let spent = 1_000_000 - heir.remaining("hot", key);
        assert_eq!(server.stop("TERM").code(), Some(0));
        (spent - ASKED, 1_000_000 - heir.remaining("hot", key) - ASKED)
    };
    // On a busy machine a lease may have run out before the stop.
    let mut runs = ["ann", "ben", "cid", "dan", "eve"].iter().map(|key| run(key));
    assert!(runs.any(|(leased, lost)| leased > 0 && lost == 0), "units were lost each time");
}
