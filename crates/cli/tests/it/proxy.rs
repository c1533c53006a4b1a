//! The reverse proxy: forwarded requests, returned answers, and refusals.

use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use tokio::sync::Semaphore;

use crate::processes::{FaultProxy, Faults, RedisServer, Way, wait_until};
use crate::programs::{curl, try_curl};
use crate::proxy_support::{Origin, Proxy, by_hand, read_answer, read_head, received};
use crate::support::Folder;
use crate::support::{DEADLINE, Reply, run, tidegate};

/// No limit.
const FREE: &str = "";
/// Three requests for all clients together.
const THREE: &str =
    "policies: { few: { algorithm: sliding-log, limit: 3/h } }\nroutes: [{ policy: few }]";

#[test]
fn requests_and_answers_are_forwarded() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", FREE);
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        for (method, body) in [
            ("GET", ""),
            ("GET", "a body"),
            ("POST", "a body"),
            ("POST", ""),
            ("PUT", "a body"),
            ("PATCH", "a body"),
            ("DELETE", ""),
            ("DELETE", "a body"),
            ("OPTIONS", ""),
            ("PURGE", ""),
        ] {
            let url = proxy.url("/things?a=1&b=%2F&c=ä");
            let mut args = vec![version, "-X", method, "-H", "x-own: kept", &url];
            if !body.is_empty() {
                args.extend(["-d", body]);
            }
            let seen: serde_json::Value = serde_json::from_str(&curl(&args)).unwrap();
            assert_eq!(seen["method"], method, "{version}");
            assert_eq!(seen["uri"], "/things?a=1&b=%2F&c=ä", "{version}");
            assert_eq!(seen["body"], body, "{version} {method}");
            assert_eq!(received(&seen, "x-own"), ["kept"], "{version}");
        }
    }
    let head = curl(&["-I", &proxy.url("/")]);
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("content-length: "), "{head}");
}

#[test]
fn split_cookies_are_joined() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", FREE);
    let url = proxy.url("/");
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let args = [version, "-H", "cookie: a=1", "-H", "cookie: session=x; b=2", &url];
        let seen = serde_json::from_str(&curl(&args)).unwrap();
        assert_eq!(received(&seen, "cookie"), ["a=1; session=x; b=2"], "{version}");
    }
}

#[test]
fn bodies_without_a_length_are_forwarded() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", FREE);
    for method in ["GET", "POST", "DELETE"] {
        let sent = format!(
            "{method} / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nTrailer: x-sum\r\n\r\n\
             3\r\nabc\r\n2;why=not\r\nde\r\n0\r\nx-sum: 5\r\n\r\n"
        );
        let answer = Reply::read(&proxy.raw(sent.as_bytes()));
        let seen = answer.json();
        assert_eq!((&seen["method"], &seen["body"]), (&method.into(), &"abcde".into()));
        assert_eq!(seen["trailers"][0][1], "5", "{seen}");
        assert_eq!(received(&seen, "transfer-encoding"), ["chunked"]);
    }
}

#[test]
fn hop_by_hop_headers_are_removed_in_both_directions() {
    let folder = Folder::new();
    let origin = by_hand(|mut stream| {
        let head = read_head(&mut stream);
        let body = head.to_lowercase();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nConnection: X-Secret\r\nX-Secret: s\r\nKeep-Alive: timeout=9\r\n\
             Proxy-Authenticate: Basic\r\nProxy-Status: app\r\nX-Open: o\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let proxy = Proxy::start(&folder, &format!("http://{origin}"), "", FREE);
    let reply = proxy.server.send(
        "GET",
        "/",
        &[
            ("Connection", "X-Mine, keep-alive"),
            ("X-Mine", "m"),
            ("Keep-Alive", "timeout=5"),
            ("Proxy-Authorization", "Basic eA=="),
            ("Proxy-Connection", "keep-alive"),
            ("Proxy-Foo", "f"),
            ("Proxy", "http://evil.example"),
            ("TE", "trailers, deflate"),
            ("Upgrade", "h2c"),
            ("X-Yours", "y"),
        ],
        b"",
    );
    for gone in ["x-mine", "keep-alive:", "proxy", "deflate", "upgrade", "connection:"] {
        assert!(!reply.body.contains(gone), "{gone} in {}", reply.body);
    }
    for there in ["x-yours: y", "te: trailers", "via: 1.1 tidegate"] {
        assert!(reply.body.contains(there), "{there} not in {}", reply.body);
    }
    for gone in ["x-secret", "keep-alive", "proxy-authenticate"] {
        assert_eq!(reply.header(gone), None, "{gone}");
    }
    assert_eq!((reply.header("x-open"), reply.header("via")), (Some("o"), Some("1.1 tidegate")));
    assert_eq!(reply.header("proxy-status"), Some("app"), "that is for the client");
}

#[test]
fn forwarded_headers_are_written_and_those_of_untrusted_clients_replaced() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let claims = [
        ("X-Forwarded-For", "203.0.113.9"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "bank.example"),
        ("Forwarded", "for=203.0.113.9"),
        ("X-Original-Uri", "/admin"),
    ];
    let forwarded = |more: &str, headers: &[(&str, &str)]| {
        let proxy = Proxy::start(&folder, &origin.url(), "", more);
        let seen = proxy.mirrored("GET", "/", headers, b"");
        let names = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];
        let host = proxy.server.addr.to_string();
        let seen = names.map(|name| received(&seen, name).join(" | ").replace(&host, "HOST"));
        seen.join("; ")
    };
    assert_eq!(forwarded(FREE, &claims), "127.0.0.1; http; HOST; ");
    let trusting = "client_ip: { trusted_proxies: [127.0.0.1] }";
    assert_eq!(
        forwarded(trusting, &claims),
        "203.0.113.9, 127.0.0.1; https; bank.example; for=203.0.113.9, for=127.0.0.1;host=\"HOST\";proto=http"
    );
    let hidden = [&claims[..], &[("Connection", "x-forwarded-for")]].concat();
    assert!(
        forwarded(trusting, &hidden).starts_with("127.0.0.1; https"),
        "a header that `Connection` names is not forwarded"
    );
    let forwarding = "client_ip: { forwarded: true }";
    assert_eq!(
        forwarded(forwarding, &claims),
        "127.0.0.1; http; HOST; for=127.0.0.1;host=\"HOST\";proto=http"
    );
}

#[test]
fn an_upstream_gets_the_clients_host_or_its_own() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    for (options, expected) in
        [("", "shop.example".to_owned()), (", host: upstream", origin.addr.to_string())]
    {
        let proxy = Proxy::start(&folder, &origin.url(), options, FREE);
        let sent =
            "GET http://shop.example/a HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n\r\n";
        let seen = Reply::read(&proxy.raw(sent.as_bytes())).json();
        assert_eq!((received(&seen, "host"), &seen["uri"]), (vec![&*expected], &"/a".into()));
        assert_eq!(received(&seen, "x-forwarded-host"), ["shop.example"]);
    }
}

#[test]
fn refusals_fit_the_client_and_never_reach_the_upstream() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", THREE);
    for left in [2, 1, 0] {
        let reply = proxy.server.get("/");
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("ratelimit-policy"), Some("\"few\";q=3;w=3600"));
        let state = reply.header("ratelimit").unwrap();
        assert!(state.starts_with(&format!("\"few\";r={left};t=")), "{state}");
    }
    let html = ("accept", "text/html,*/*;q=0.8");
    for (path, headers, expected) in [
        ("/", &[html][..], "<title>Whoa, Slow Down There!</title>"),
        ("/app.js", &[html], ""),
        ("/api/things", &[("accept", "*/*")], ""),
        ("/api/things", &[("accept", "application/json")], "urn:tidegate:limited"),
        ("/%61pi/things?x=.html", &[html], ""),
    ] {
        let refused = proxy.server.send("GET", path, headers, b"");
        assert_eq!(refused.status, 429, "{path}");
        assert!(refused.body.contains(expected), "{path}: {}", refused.body);
        assert_eq!(expected.is_empty(), refused.body.is_empty(), "{path}: {}", refused.body);
        assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        assert_eq!(
            refused.header("cache-control"),
            Some("no-store, no-cache, must-revalidate, max-age=0")
        );
        assert_eq!(
            (refused.header("pragma"), refused.header("expires")),
            (Some("no-cache"), Some("0"))
        );
    }
    assert_eq!(origin.requests(), 3);
    let counted = proxy.metric(r#"rate_limit_requests_total{policy="few",status="denied"}"#);
    assert_eq!(counted, Some(5.0));
    let passed =
        format!(r#"tidegate_upstream_requests_total{{upstream="{}",status="2xx"}}"#, origin.url());
    assert_eq!(proxy.metric(&passed), Some(3.0));
}

#[test]
fn every_url_is_measured_separately() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", THREE);
    for path in ["/a?x=1", "//a/", "/b", "/refused"] {
        proxy.server.get(path);
    }
    let count = |url: &str| proxy.metric(&format!(r#"request_count_by_url{{url="{url}"}}"#));
    assert_eq!(["/a", "/b", "/refused"].map(count), [Some(2.0), Some(1.0), None]);
    let mean = proxy.metric(r#"request_resp_avg_by_url{url="/a"}"#).unwrap();
    assert!(mean > 0.0 && mean < 10_000.0, "{mean} ms");
    // The statistics of upstreams are also in `/v1/pressure`.
    let pressure = curl(&[&format!("http://{}/v1/pressure", proxy.api)]);
    assert!(pressure.contains(&format!(r#""{}":{{"#, origin.url())), "{pressure}");
    assert!(pressure.contains(r#""count":3"#), "{pressure}");
}

#[test]
fn routes_match_the_forwarded_path() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let more = "policies: { login: { algorithm: sliding-log, limit: 1/h } }\n\
        routes: [{ match: { path: /login, method: POST, host: shop.example }, policy: login }]\n\
        client_ip: { trusted_proxies: [127.0.0.1] }";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    let ask = |method: &str, host: &str, path: &str, more: &str| {
        let sent =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        Reply::read(&proxy.raw(sent.as_bytes())).status
    };
    assert_eq!(ask("POST", "shop.example", "/login", ""), 200);
    for path in [
        "/login",
        "/login/",
        "//login",
        "/%6Cogin",
        "/x/../login",
        "/login;x=1",
        "/login%3Bx",
        "http://shop.example/login",
    ] {
        assert_eq!(ask("POST", "shop.example", path, ""), 429, "{path}");
    }
    for method in ["post", "Post"] {
        assert_eq!(ask(method, "shop.example", "/login", ""), 429, "{method}");
    }
    for claim in
        ["X-Forwarded-Uri: /free\r\n", "X-Forwarded-Method: GET\r\n", "X-Forwarded-Host: b\r\n"]
    {
        assert_eq!(ask("POST", "SHOP.example:80", "/login", claim), 429, "{claim}");
    }
    assert_eq!(ask("GET", "shop.example", "/login", ""), 200);
    assert_eq!(ask("POST", "other.example", "/login", ""), 200);
    assert_eq!(ask("POST", "shop.example", "/a%00", ""), 400);
    assert_eq!(ask("POST", "shop.example", "/a%2F..%2Flogin", ""), 400);
    assert_eq!(ask("POST", "shop.example", "/a/..;/login", ""), 400);
}

#[test]
fn connections_are_reused_on_both_sides() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", FREE);
    // The proxy looks at its start whether the upstream answers.
    wait_until("the upstream is looked at", DEADLINE, || origin.connections() == 1);
    let mut stream = proxy.server.connect();
    for number in 0..50 {
        let body = "x".repeat(number * 100);
        let request =
            format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(read_answer(&mut stream).json()["body"], body);
    }
    assert_eq!((origin.requests(), origin.connections()), (50, 2));
    let mut burst = String::new();
    for _ in 0..20 {
        burst.push_str("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    stream.write_all(burst.as_bytes()).unwrap();
    for _ in 0..20 {
        assert_eq!(read_answer(&mut stream).status, 200);
    }
    assert_eq!((origin.requests(), origin.connections()), (70, 2));
}

#[test]
fn a_leaky_bucket_delays_requests_and_refuses_long_waits() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let more = "policies: { even: { algorithm: leaky-bucket, limit: 10/s, max_wait: 250ms } }\n\
        routes: [{ policy: even, key: global }]";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| proxy.server.get("/").status);
        let asked: Vec<_> = (0..12).map(|_| ask()).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    // Some requests arrive later than others, so that more than three may be admitted.
    let admitted = statuses.iter().filter(|status| **status == 200).count();
    assert!((3..12).contains(&admitted), "{statuses:?}");
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert_eq!(origin.requests(), admitted);
    let times: String = curl(&[
        "-o",
        "/dev/null",
        "-o",
        "/dev/null",
        "-w",
        "%{time_total} ",
        &proxy.url("/"),
        &proxy.url("/"),
    ]);
    let times: Vec<f64> = times.split_whitespace().map(|time| time.parse().unwrap()).collect();
    // Their turns are 100 ms apart. The first is late where the machine is busy, and then the second waits for less.
    assert!(times.iter().sum::<f64>() > 0.09, "the second is delayed: {times:?}");
}

#[test]
fn a_concurrency_permit_is_held_until_the_response_has_ended() {
    let (folder, gate) = (Folder::new(), Arc::new(Semaphore::new(0)));
    let opened = gate.clone();
    let origin = Origin::start(move |_| {
        let opened = opened.clone();
        async move {
            let _ = opened.acquire().await;
            Response::new(Body::from("done"))
        }
    });
    let more = "policies: { one: { algorithm: concurrency, limit: 1 } }\nroutes: [{ policy: one, key: global }]";
    let proxy = Proxy::start(&folder, &origin.url(), "", more);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| proxy.server.get("/").status);
        wait_until("the first is in flight", DEADLINE, || origin.requests() == 1);
        assert_eq!(proxy.server.get("/").status, 429);
        gate.add_permits(100);
        assert_eq!(first.join().unwrap(), 200);
    });
    wait_until("the permit is free again", DEADLINE, || proxy.server.get("/").status == 200);
}

#[test]
fn a_client_that_leaves_while_redis_decides_keeps_no_concurrency_permit() {
    let (redis, folder, origin) = (RedisServer::start(), Folder::new(), Origin::mirror());
    let slow = FaultProxy::start(redis.port());
    let more = format!(
        "store: {{ url: \"redis://{}\", deadline: 10s, breaker: false }}\n\
         policies: {{ one: {{ algorithm: concurrency, limit: 1, ttl: 1h }} }}\n\
         routes: [{{ policy: one, key: global }}]",
        slow.address()
    );
    let proxy = Proxy::start(&folder, &origin.url(), "", &more);
    assert_eq!(proxy.server.get("/").status, 200);
    slow.set(Faults::to_client(Way::delay(Duration::from_millis(500))));
    let gone = try_curl(&["--max-time", "0.1", &proxy.url("/")]);
    assert!(gone.is_err(), "{gone:?}");
    slow.heal();
    wait_until("the permit is free again", DEADLINE, || proxy.server.get("/").status == 200);
}

#[test]
fn requests_above_max_requests_are_refused() {
    let (folder, gate) = (Folder::new(), Arc::new(Semaphore::new(0)));
    let opened = gate.clone();
    let origin = Origin::start(move |_| {
        let opened = opened.clone();
        async move {
            let _ = opened.acquire().await;
            Response::new(Body::from("done"))
        }
    });
    for (options, expected) in
        [(", max_requests: 2", 429), (", max_requests: 2, shed_status: 503", 503)]
    {
        let proxy = Proxy::start(&folder, &origin.url(), options, FREE);
        let before = origin.requests();
        std::thread::scope(|scope| {
            let held: Vec<_> =
                (0..2).map(|_| scope.spawn(|| proxy.server.get("/").status)).collect();
            wait_until("two are in flight", DEADLINE, || origin.requests() == before + 2);
            let refused = proxy.server.get("/");
            assert_eq!(refused.status, expected);
            assert!(["1", "2"].contains(&refused.header("retry-after").unwrap()));
            gate.add_permits(2);
            for held in held {
                assert_eq!(held.join().unwrap(), 200);
            }
        });
        gate.add_permits(1);
        wait_until("requests are admitted again", DEADLINE, || proxy.server.get("/").status == 200);
        // Removes the permits that were not used.
        gate.forget_permits(gate.available_permits());
    }
}

#[test]
fn only_an_admitted_client_gets_100_continue() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", THREE);
    let head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n";
    let mut stream = proxy.server.connect();
    stream.write_all(head).unwrap();
    assert_eq!(read_head(&mut stream), "HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"ok").unwrap();
    let seen = read_answer(&mut stream).json();
    assert_eq!((&seen["body"], received(&seen, "expect").len()), (&"ok".into(), 0));
    assert_eq!([proxy.server.get("/").status, proxy.server.get("/").status], [200, 200]);
    stream.write_all(head).unwrap();
    assert_eq!(read_answer(&mut stream).status, 429);
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
    assert!(rest.is_empty(), "the following bytes could be a body or a request");
}

#[test]
fn a_reload_changes_the_upstream_without_a_restart() {
    let (folder, first, second) = (Folder::new(), Origin::mirror(), Origin::mirror());
    let proxy = Proxy::start(&folder, &first.url(), "", FREE);
    assert_eq!(proxy.server.get("/").status, 200);
    let config = format!(
        "listen: {{ http: 127.0.0.1:0, proxy: 127.0.0.1:0 }}\nproxy: {{ upstream: {} }}\n",
        second.url()
    );
    folder.write("proxy.yaml", &config);
    proxy.server.signal("HUP");
    wait_until("requests go elsewhere", DEADLINE, || {
        assert_eq!(proxy.server.get("/").status, 200);
        second.requests() > 0
    });
    folder.write("proxy.yaml", config.replace("http://", "ftp://"));
    proxy.server.signal("HUP");
    wait_until("the file was refused", DEADLINE, || {
        proxy.metric(r#"tidegate_config_reload_total{result="error"}"#) >= Some(1.0)
    });
    let before = second.requests();
    assert_eq!((proxy.server.get("/").status, second.requests()), (200, before + 1));
}

#[test]
fn the_proxy_command_needs_no_configuration_file() {
    let origin = Origin::mirror();
    let upstream = origin.url();
    let args = ["--upstream", &upstream, "--limit", "sliding-log 2/h", "--listen", "127.0.0.1:0"];
    let mut proxy = Proxy::launched(&mut tidegate(&[&["proxy"], &args[..]].concat()));
    let asked: Vec<_> = (0..3).map(|_| proxy.server.get("/").status).collect();
    assert_eq!(asked, [200, 200, 429]);
    assert_eq!(proxy.server.stop("TERM").code(), Some(0));
    for (args, expected) in [
        (&["proxy"][..], 64),
        (&["proxy", "--upstream", "127.0.0.1:3000"], 64),
        (&["proxy", "--upstream", "http://127.0.0.1:1", "--limit", "5/fortnight"], 64),
    ] {
        let output = run(args);
        assert_eq!(output.code, Some(expected), "{args:?}: {}", output.stderr);
    }
}

#[test]
fn limits_of_clients_and_urls_are_one_atomic_step() {
    let origin = Origin::start(|request| async move {
        if request.uri().path() == "/slow" {
            tokio::time::sleep(std::time::Duration::from_millis(700)).await;
        }
        Response::new(Body::empty())
    });
    let upstream = origin.url();
    let args = ["--upstream", &upstream, "--adaptive", "--limit", "sliding-log 5/h"];
    let doors = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let proxy = Proxy::launched(&mut tidegate(&[&["proxy"], &args[..], &doors].concat()));
    assert_eq!(proxy.server.get("/slow?page=1").status, 200);
    let effective = || proxy.metric(r#"rate_limit_effective_limit{policy="limit/url"}"#);
    wait_until("the slow URL has less", DEADLINE, || effective().is_some_and(|it| it < 240.0));
    let reply = proxy.server.get("/slow?page=2");
    let policies = reply.header("ratelimit-policy").map(str::to_owned);
    assert_eq!((reply.status, policies.as_deref()), (200, Some(r#""client";q=5;w=3600"#)));
    let statuses: Vec<_> = (0..4).map(|_| proxy.server.get("/").status).collect();
    assert_eq!(statuses, [200, 200, 200, 429], "five of this client");
    let body = r#"{"policy":"limit","keys":{"client_ip":"192.0.2.1","url":"/slow"},"cost":0}"#;
    let seen = curl(&["-d", body, &format!("http://{}/v1/peek", proxy.api)]);
    assert!(seen.contains(r#""binding":"client""#), "another client has its own: {seen}");
}

#[test]
fn concurrent_http2_streams_are_forwarded() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let proxy = Proxy::start(&folder, &origin.url(), "", FREE);
    let ran = Command::new("h2load")
        .args(["-n", "3000", "-c", "4", "-m", "32", &proxy.url("/")])
        .output()
        .expect("cannot start h2load; `./dev clients` installs what the tests need");
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(output.contains("3000 succeeded, 0 failed, 0 errored"), "{output}");
    assert_eq!(origin.requests(), 3000);
    assert!(origin.connections() <= 256, "{}", origin.connections());
}
