//! `tidegate serve` as a process: how it starts, what it refuses, how it ends.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::support::{Folder, Server, run};

#[test]
fn it_says_where_it_is_and_how_to_ask() {
    for args in [&["--listen", "127.0.0.1:0"][..], &["serve", "--listen", "localhost:0"]] {
        let server = Server::start_with(args);
        assert!(server.addr.ip().is_loopback());
        let curl =
            format!(r#"curl -s {}/v1/check -d '{{"policy":"api","key":"user-42"}}'"#, server.url());
        assert!(server.welcome.contains(&curl), "{}", server.welcome);
    }
}

#[test]
fn what_it_says_to_try_can_be_tried() {
    let folder = Folder::new();
    for (policies, tried) in
        [("client_ip: {}", "/v1/policies"), ("policies: { web: 5/min }", r#"{"policy":"web","#)]
    {
        let path = folder.write("tidegate.yaml", policies);
        let server = Server::start_with(&["serve", "-c", &path, "--listen", "127.0.0.1:0"]);
        let line = server.welcome.lines().find_map(|line| line.strip_prefix("try it:  ")).unwrap();
        assert!(line.contains(tried), "{line}");
        let said = Command::new("sh").args(["-c", &line.replace("-s", "-sf")]).output().unwrap();
        assert!(said.status.success(), "{line}");
    }
}

#[test]
fn a_signal_ends_it_with_0() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start();
        // One connection that idles, and one that never said anything.
        let (mut idle, _silent) = (server.connect(), server.connect());
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        assert!(idle.read(&mut [0; 1024]).unwrap() > 0);
        assert_eq!(server.stop(signal).code(), Some(0), "{signal}");
    }
}

#[test]
fn a_request_in_flight_is_answered_after_the_signal() {
    let mut server = Server::start();
    let mut stream = server.connect();
    let head =
        "POST /v1/check HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 28\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    // The server asks for the body: the request is in its hands now.
    stream.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    let sending = std::thread::spawn(move || {
        stream.write_all(br#"{"policy":"api","key":"ann"}"#).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    });
    assert_eq!(server.stop("TERM").code(), Some(0));
    let reply = sending.join().unwrap();
    assert!(reply.contains(r#""allowed":true"#), "{reply}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let said = run(&["serve", "--listen", &addr]);
    assert_eq!(said.code, Some(1));
    assert_eq!(said.stdout, "");
    for part in [addr.as_str(), "another program", "--listen 127.0.0.1:0"] {
        assert!(said.stderr.contains(part), "{part} in {}", said.stderr);
    }
}

#[test]
fn others_are_only_let_in_when_told_to() {
    for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let said = run(&["--listen", addr]);
        assert_eq!(said.code, Some(1), "{addr}");
        for part in [addr, "neither TLS nor authentication", "--insecure-bind"] {
            assert!(said.stderr.contains(part), "{part} in {}", said.stderr);
        }
    }
    let server = Server::start_with(&["--listen", "0.0.0.0:0", "--insecure-bind"]);
    assert!(server.addr.ip().is_unspecified());
}

#[test]
fn help_and_version_are_complete() {
    for (args, parts) in [
        (&["--help"][..], &["serve", "check", "vectors", "Examples:", "NO_COLOR"][..]),
        (&["serve", "--help"], &["--listen", "--insecure-bind", "Examples:"]),
        (&["check", "--help"], &["--cost", "--server", "--json", "Examples:", "2 denied"]),
        (&["vectors", "--help"], &["--store", "Examples:", "expect"]),
        (&["--version"], &[env!("CARGO_PKG_VERSION")]),
    ] {
        let said = run(args);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{args:?}");
        for part in parts {
            assert!(said.stdout.contains(part), "{part} in {}", said.stdout);
        }
    }
}

#[test]
fn what_makes_no_sense_exits_with_64() {
    for args in [&["frob"][..], &["--listen", "nonsense"], &["--listen"], &["serve", "extra"]] {
        let said = run(args);
        assert_eq!((said.code, said.stdout.as_str()), (Some(64), ""), "{args:?}");
        assert!(said.stderr.contains("error:"), "{}", said.stderr);
    }
}

#[test]
fn a_password_without_a_door_is_told() {
    let said = run(&["serve", "--listen", "127.0.0.1:0", "--resp-password-file", "/nowhere"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert!(said.stderr.contains("pass --resp ADDR, too"), "{}", said.stderr);
}

#[test]
fn a_path_that_is_taken_is_named() {
    let folder = Folder::new();
    let place = format!("unix:{}", folder.write("notes.txt", "not a socket"));
    let said = run(&["serve", "--listen", &place]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""));
    assert!(said.stderr.contains("or a file that is no socket"), "{}", said.stderr);
    assert_eq!(std::fs::read(folder.path("notes.txt")).unwrap(), b"not a socket");
}

#[test]
fn a_store_is_the_same_wherever_it_is_named() {
    let folder = Folder::new();
    let policies = "policies: { api: 5/h }\n";
    let bare = folder.write("bare.yaml", policies);
    for (index, url) in
        ["memory", "memory:", " memory ", " redis://127.0.0.1:1 \n"].iter().enumerate()
    {
        let named = folder.write(&format!("{index}.url"), url);
        let named = format!("store: {{ url_file: '{named}' }}\n{policies}");
        let named = folder.write(&format!("{index}.yaml"), named);
        for args in [&["-c", &bare, "--store", url][..], &["-c", &named]] {
            let server =
                Server::start_with(&[&["serve", "--listen", "127.0.0.1:0"][..], args].concat());
            let store = server.get("/v1/status").json()["store"].clone();
            let expected = if url.contains("redis") { "redis" } else { "memory" };
            assert_eq!(store, expected, "{args:?}");
        }
    }
}
