//! The server over stores that are not Redis: PostgreSQL and memcached.

use crate::processes::{DEADLINE, MemcachedServer, PostgresServer, wait_until};
use crate::support::{Folder, Server, run};
use crate::vectors::{golden, replay};

/// A long deadline, because the machine may be busy: a decision without the store would use a local limit.
pub(crate) fn serve(folder: &Folder, url: &str, policies: &str) -> Server {
    let store = match url {
        "memory:" => "store: memory\n".to_owned(),
        url => format!("store: {{ url: \"{url}\", deadline: 10s, breaker: false }}\n"),
    };
    Server::with_config(folder, &(store + policies))
}

pub(crate) fn wait_for_store(server: &Server, policy: &str) {
    let peek = format!(r#"{{"policy":"{policy}","key":"probe"}}"#);
    wait_until("the server counts in its store", DEADLINE, || {
        server.post("/v1/peek", &peek).json()["source"] == "store"
    });
}

/// Three servers admit one limit together.
fn one_limit_for_three_servers(url: &str) {
    let folders = [(); 3].map(|()| Folder::new());
    let servers =
        folders.each_ref().map(|it| serve(it, url, "policies: { login: sliding-log 5/h }\n"));
    let check = |server: &Server| {
        let reply = server.post("/v1/check", r#"{"policy":"login","key":"user-42"}"#).json();
        reply["allowed"].as_bool().unwrap()
    };
    for server in &servers {
        wait_for_store(server, "login");
    }
    let admitted = (0..12).filter(|turn| check(&servers[turn % 3])).count();
    assert_eq!(admitted, 5);
}

#[test]
fn three_servers_share_one_limit_over_postgresql() {
    one_limit_for_three_servers(&PostgresServer::start().url());
}

#[test]
fn three_servers_share_one_limit_over_memcached() {
    one_limit_for_three_servers(&MemcachedServer::start().url());
}

#[test]
fn every_engine_passes_every_golden_case() {
    let in_memory = replay(&golden(), &[]).stdout;
    let (postgres, memcached) = (PostgresServer::start(), MemcachedServer::start());
    for url in [postgres.url(), memcached.url()] {
        let output = replay(&golden(), &["--store", &url]);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{url}");
        assert!(output.stdout == in_memory, "{url}");
    }
}

#[test]
fn overrides_permits_and_leases_work_over_every_engine() {
    let (postgres, memcached) = (PostgresServer::start(), MemcachedServer::start());
    for url in [postgres.url(), memcached.url()] {
        let folder = Folder::new();
        let policies = "policies:\n  api: { limit: 1/h }\n  jobs: { algorithm: concurrency, limit: 1, ttl: 1min }\n  \
            hot: { algorithm: fixed-window, limit: 1000/h, lease: true }\n";
        let server = serve(&folder, &url, policies);
        wait_for_store(&server, "api");
        let put = server.send("PUT", "/v1/overrides/api/partner", &[], br#"{"limit":"5/h"}"#);
        assert!(put.status < 300, "{}", put.body);
        wait_until("the override to hold", DEADLINE, || server.remaining("api", "partner") == 5);
        let acquire = || server.post("/v1/acquire", r#"{"policy":"jobs","key":"k"}"#).json();
        let permit = acquire()["permit"].as_str().unwrap().to_owned();
        assert_eq!(acquire()["allowed"], false, "{url}");
        let release = format!(r#"{{"policy":"jobs","key":"k","permit":"{permit}"}}"#);
        assert_eq!(server.post("/v1/release", &release).json()["released"], true, "{url}");
        let hot = || server.post("/v1/check", r#"{"policy":"hot","key":"k"}"#).json();
        let sources: Vec<_> =
            (0..300).map(|_| hot()["source"].as_str().unwrap().to_owned()).collect();
        assert!(sources.iter().any(|source| source == "lease"), "{url}");
        assert!(
            server.metric("tidegate_store_calls_total").is_some_and(|calls| calls > 0.0),
            "{url}"
        );
    }
}

#[test]
fn a_store_that_goes_away_is_not_a_refusal_and_heals() {
    let server_of = |url: &str, folder: &Folder| {
        let store = format!("store: {{ url: \"{url}\", deadline: 500ms }}\n");
        Server::with_config(folder, &(store + "policies: { api: 100/h }\n"))
    };
    let source = |server: &Server| {
        let reply = server.post("/v1/check", r#"{"policy":"api","key":"probe","cost":0}"#).json();
        reply["source"].as_str().unwrap_or_default().to_owned()
    };
    let (postgres, memcached) = (PostgresServer::start(), MemcachedServer::start());
    let folders = [Folder::new(), Folder::new()];
    let servers =
        [server_of(&postgres.url(), &folders[0]), server_of(&memcached.url(), &folders[1])];
    for server in &servers {
        wait_until("the server counts in its store", DEADLINE, || source(server) == "store");
    }
    postgres.kill();
    memcached.kill();
    for server in &servers {
        wait_until("the server decides locally", DEADLINE, || source(server) == "local");
    }
    postgres.restart();
    memcached.restart();
    for server in &servers {
        wait_until("the server counts in its store again", DEADLINE, || source(server) == "store");
    }
}

#[test]
fn the_doctor_knows_every_engine() {
    let (postgres, memcached) = (PostgresServer::start(), MemcachedServer::start());
    for (url, words) in [
        (postgres.url(), ["PostgreSQL 1", "fsync is off", "script-time"]),
        (memcached.url(), ["memcached 1.", "none since it was started", "script-time"]),
    ] {
        let output = run(&["doctor", "--store", &url]);
        assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
        for word in words {
            assert!(output.stdout.contains(word), "{word}: {}", output.stdout);
        }
    }
    postgres.kill();
    memcached.kill();
    for url in [postgres.url(), memcached.url()] {
        let output = run(&["doctor", "--store", &url]);
        assert_eq!(output.code, Some(1), "{}{}", output.stdout, output.stderr);
        assert!(output.stdout.contains("fault reach"), "{}", output.stdout);
    }
}

#[test]
fn memcached_refuses_policies_on_several_identifiers_when_they_are_written() {
    let folder = Folder::new();
    let config = "store: memcached://127.0.0.1:11211\npolicies:\n  signup:\n    all:\n      \
        - { name: ip, key: ip, limit: 3/h }\n      - { name: domain, key: email_domain, limit: 50/h }\n";
    let file = folder.write("tidegate.yaml", config);
    let output = run(&["validate", &file]);
    assert_eq!(output.code, Some(1));
    let text = output.stdout + &output.stderr;
    assert!(text.contains("cannot change in one step") && text.contains("signup"), "{text}");
}
