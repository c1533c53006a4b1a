//! The server over stores that are not one Redis: PostgreSQL, memcached and a quorum.

use crate::processes::{DEADLINE, MemcachedServer, PostgresServer, RedisServer, wait_until};
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
    let (_servers, quorum) = quorum();
    for url in [postgres.url(), memcached.url(), quorum] {
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
        let renewed = server.post("/v1/renew", &release);
        assert_eq!(renewed.body, r#"{"renewed":true,"ttl_ms":60000}"#, "{url}");
        assert_eq!(server.post("/v1/release", &release).json()["released"], true, "{url}");
        assert_eq!(
            server.post("/v1/renew", &release).body,
            r#"{"renewed":false,"reason":"not-held"}"#,
            "{url}"
        );
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

/// Three Redis servers, and the URL of their quorum.
pub(crate) fn quorum() -> ([RedisServer; 3], String) {
    let servers = [(); 3].map(|()| RedisServer::start());
    let url = format!("redis+quorum://{}", servers.each_ref().map(RedisServer::address).join(","));
    (servers, url)
}

#[test]
fn three_servers_share_one_limit_over_a_quorum() {
    let (_servers, url) = quorum();
    one_limit_for_three_servers(&url);
}

#[test]
fn a_quorum_passes_every_golden_case() {
    let (_servers, url) = quorum();
    let output = replay(&golden(), &["--store", &url]);
    assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""));
    assert!(output.stdout == replay(&golden(), &[]).stdout);
}

#[test]
fn the_doctor_knows_a_quorum_also_beside_the_main_store() {
    let (servers, url) = quorum();
    let folder = Folder::new();
    let config = format!("store: {{ url: memory, quorum: \"{url}\" }}\npolicies: {{ api: 5/h }}\n");
    let file = folder.write("tidegate.yaml", config);
    for args in [["doctor", "--store", url.as_str()], ["doctor", "-c", file.as_str()]] {
        let output = run(&args);
        assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
        for word in ["3 of 3 servers answer", "AOF is off", "script-time"] {
            assert!(output.stdout.contains(word), "{word}: {}", output.stdout);
        }
    }
    for server in &servers[1..] {
        server.kill();
    }
    let output = run(&["doctor", "--store", &url]);
    assert_eq!(output.code, Some(1), "{}{}", output.stdout, output.stderr);
    assert!(output.stdout.contains("1 of 3 servers answer"), "{}", output.stdout);
}

#[test]
fn policies_that_ask_for_a_quorum_are_counted_there_and_others_are_not() {
    let (servers, url) = quorum();
    let (main, folder) = (RedisServer::start(), Folder::new());
    let config = format!(
        "store: {{ url: \"{}\", quorum: \"{url}\", deadline: 10s, breaker: false }}\npolicies:\n  api: 5/h\n  \
         payout: {{ algorithm: fixed-window, limit: 2/day, quorum: true, on_store_error: deny }}\n",
        main.url()
    );
    let server = Server::with_config(&folder, &config);
    wait_for_store(&server, "api");
    wait_for_store(&server, "payout");
    let check = |policy: &str| {
        let question = format!(r#"{{"policy":"{policy}","key":"user-42"}}"#);
        server.post("/v1/check", &question).json()["allowed"].as_bool().unwrap()
    };
    assert_eq!(
        [check("payout"), check("payout"), check("payout"), check("api")],
        [true, true, false, true]
    );
    let keys = |server: &RedisServer| server.cli(&["KEYS", "*"]);
    assert!(keys(&main).contains("api") && !keys(&main).contains("payout"), "{}", keys(&main));
    let holders = servers.iter().filter(|it| keys(it).contains("payout")).count();
    assert!(holders >= 2 && !keys(&servers[0]).contains(":api"), "{holders}");
    // One step cannot be in both.
    let both =
        r#"{"atomic":true,"checks":[{"policy":"api","key":"k"},{"policy":"payout","key":"k"}]}"#;
    assert_eq!(server.post("/v1/check/batch", both).status, 400);
    // Each fails by itself.
    for server in &servers[1..] {
        server.kill();
    }
    let status = |policy: &str| {
        let question = format!(r#"{{"policy":"{policy}","key":"other"}}"#);
        server.post("/v1/check", &question).status
    };
    wait_until("the quorum is away", DEADLINE, || status("payout") == 503);
    wait_for_store(&server, "api");
}

#[test]
fn what_a_quorum_cannot_do_is_said_when_it_is_written() {
    let quorum = "redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";
    for (config, words) in [
        ("policies: { pay: { limit: 5/h, quorum: true } }\n".to_owned(), "needs a quorum"),
        (
            "store: { url: memory, quorum: \"redis://127.0.0.1:1\" }\npolicies: { pay: 5/h }\n"
                .to_owned(),
            "expected redis+quorum://",
        ),
        (
            "store: redis+quorum://127.0.0.1:1,127.0.0.1:2\npolicies: { pay: 5/h }\n".to_owned(),
            "expected 3, 5, 7 or 9",
        ),
        (
            format!(
                "store: {{ url: memory, quorum: \"{quorum}\" }}\npolicies:\n  pay:\n    quorum: true\n    all:\n      \
                 - {{ name: ip, key: ip, limit: 3/h }}\n      - {{ name: user, key: user, limit: 5/h }}\n"
            ),
            "cannot change in one step",
        ),
        (
            format!(
                "store: {{ url: memory, quorum: \"{quorum}\" }}\npolicies:\n  pay: {{ limit: 5/h, quorum: true, \
                 replicas: {{ wait: 1 }} }}\n"
            ),
            "a majority of servers confirms",
        ),
    ] {
        let folder = Folder::new();
        let output = run(&["validate", &folder.write("tidegate.yaml", &config)]);
        let text = output.stdout + &output.stderr;
        assert!(output.code == Some(1) && text.contains(words), "{config}{text}");
    }
    let folder = Folder::new();
    let good = format!("store: {quorum}\npolicies: {{ pay: {{ limit: 5/h, quorum: true }} }}\n");
    assert_eq!(run(&["validate", &folder.write("tidegate.yaml", &good)]).code, Some(0));
    let unused =
        format!("store: {{ url: memory, quorum: \"{quorum}\" }}\npolicies: {{ pay: 5/h }}\n");
    let output = run(&["validate", &folder.write("tidegate.yaml", &unused)]);
    let text = output.stdout + &output.stderr;
    assert!(output.code == Some(0) && text.contains("no policy is counted there"), "{text}");
}

#[test]
fn a_quorum_needs_no_more_rights_than_its_page_says() {
    let page = std::fs::read_to_string(crate::programs::root().join("docs/quorum.md")).unwrap();
    let line = page.lines().find(|line| line.starts_with("redis-cli ACL SETUSER")).unwrap();
    let line = line.replace('\'', "");
    let (_, rules) = line.split_once(" tidegate ").unwrap();
    let check = |rules: &str| {
        let server = || RedisServer::builder().user("tidegate", rules).start();
        let servers = [(); 3].map(|()| server());
        let hosts = servers.each_ref().map(RedisServer::address).join(",");
        let output =
            run(&["doctor", "--store", &format!("redis+quorum://tidegate:PASSWORD@{hosts}")]);
        (output.code, output.stdout)
    };
    let (code, text) = check(rules);
    assert!(code == Some(0) && text.contains("every algorithm has run"), "{text}");
    // Without what only the doctor reads, everything still runs.
    let (code, text) = check(&rules.replace(" +info", ""));
    assert!(code == Some(0) && text.contains("may not run INFO"), "{text}");
    // One right less: the remedy is that of a quorum.
    let (code, text) = check(&rules.replace(" +hmget", ""));
    let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == Some(1) && joined.contains("docs/quorum.md#the-least-rights"), "{text}");
    assert!(!joined.contains("see permissions"), "{text}");
}

#[test]
fn the_doctor_speaks_of_roles_and_addresses_where_postgres_fails() {
    let postgres = PostgresServer::start();
    postgres.sql("CREATE ROLE weak LOGIN; REVOKE CREATE ON DATABASE postgres FROM PUBLIC");
    let doctor = |url: &str| {
        let output = run(&["doctor", "--store", url]);
        assert_eq!(output.code, Some(1), "{}", output.stdout);
        output.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let address = postgres.address();
    let text = doctor(&format!("postgres://weak@{address}/postgres"));
    assert!(text.contains(&format!("denied: {address}: ")), "{text}");
    assert!(
        text.contains("GRANT CREATE ON DATABASE") && !text.contains("see permissions"),
        "{text}"
    );
    let text = doctor(&format!("postgres://weak@{address}/nowhere"));
    assert!(text.contains(&format!("misconf: {address}: ")), "{text}");
    postgres.kill();
    let text = doctor(&postgres.url());
    assert!(text.contains(&format!("unreachable: {address}: ")), "{text}");
    assert!(text.contains("pg_isready"), "{text}");
}
