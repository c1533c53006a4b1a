//! Several servers over one Redis: one limit, and an answer also while Redis is gone.

use crate::processes::{ClusterShape, DEADLINE, RedisCluster, RedisServer, wait_until};
use crate::support::Server;

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
