//! `tidegate serve` as a process: start, errors and shutdown.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use crate::support::{Folder, Server, run};

#[test]
fn the_welcome_text_has_the_address_and_an_example() {
    for args in [&["--listen", "127.0.0.1:0"][..], &["serve", "--listen", "localhost:0"]] {
        let server = Server::start_with(args);
        assert!(server.addr.ip().is_loopback());
        let curl =
            format!(r#"curl -s {}/v1/check -d '{{"policy":"api","key":"user-42"}}'"#, server.url());
        assert!(server.welcome.contains(&curl), "{}", server.welcome);
    }
}

#[test]
fn the_example_of_the_welcome_text_works() {
    let folder = Folder::new();
    for (policies, tried) in
        [("client_ip: {}", "/v1/policies"), ("policies: { web: 5/min }", r#"{"policy":"web","#)]
    {
        let path = folder.write("tidegate.yaml", policies);
        let server = Server::start_with(&["serve", "-c", &path, "--listen", "127.0.0.1:0"]);
        let line = server.welcome.lines().find_map(|line| line.strip_prefix("try it:  ")).unwrap();
        assert!(line.contains(tried), "{line}");
        let output = Command::new("sh").args(["-c", &line.replace("-s", "-sf")]).output().unwrap();
        assert!(output.status.success(), "{line}");
    }
}

#[test]
fn a_signal_stops_the_server_with_exit_code_0() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start();
        // One idle connection after a request, and one without any.
        let (mut idle, _silent) = (server.connect(), server.connect());
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert!(idle.read(&mut [0; 1024]).unwrap() > 0);
        assert_eq!(server.stop(signal).code(), Some(0), "{signal}");
    }
}

#[test]
fn a_request_in_flight_is_answered_after_the_signal() {
    let mut server = Server::start();
    let mut stream = server.connect();
    let head = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 28\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let mut interim = [0; 25];
    // The server has sent `100 Continue`, so the request is in flight.
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
fn a_port_in_use_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let output = run(&["serve", "--listen", &addr]);
    assert_eq!(output.code, Some(1));
    assert_eq!(output.stdout, "");
    for part in [addr.as_str(), "another program", "--listen 127.0.0.1:0"] {
        assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
    }
}

#[test]
fn public_addresses_need_insecure_bind() {
    for addr in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let output = run(&["--listen", addr]);
        assert_eq!(output.code, Some(1), "{addr}");
        for part in [addr, "neither TLS nor authentication", "--insecure-bind"] {
            assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
        }
    }
    let server = Server::start_with(&["--listen", "0.0.0.0:0", "--insecure-bind"]);
    assert!(server.addr.ip().is_unspecified());
}

#[test]
fn help_and_version_work() {
    for (args, parts) in [
        (&["--help"][..], &["serve", "check", "vectors", "Examples:", "NO_COLOR"][..]),
        (&["serve", "--help"], &["--listen", "--insecure-bind", "Examples:"]),
        (&["check", "--help"], &["--cost", "--server", "--json", "Examples:", "2 denied"]),
        (&["vectors", "--help"], &["--store", "Examples:", "expect"]),
        (&["--version"], &[env!("CARGO_PKG_VERSION")]),
    ] {
        let output = run(args);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{args:?}");
        for part in parts {
            assert!(output.stdout.contains(part), "{part} in {}", output.stdout);
        }
    }
}

#[test]
fn invalid_arguments_exit_with_64() {
    for args in [&["frob"][..], &["--listen", "nonsense"], &["--listen"], &["serve", "extra"]] {
        let output = run(args);
        assert_eq!((output.code, output.stdout.as_str()), (Some(64), ""), "{args:?}");
        assert!(output.stderr.contains("error:"), "{}", output.stderr);
    }
}

#[test]
fn a_password_without_a_resp_door_is_an_error() {
    let output = run(&["serve", "--listen", "127.0.0.1:0", "--resp-password-file", "/nowhere"]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
    assert!(output.stderr.contains("pass --resp ADDR, too"), "{}", output.stderr);
}

#[test]
fn a_socket_path_in_use_is_named() {
    let folder = Folder::new();
    let place = format!("unix:{}", folder.write("notes.txt", "not a socket"));
    let output = run(&["serve", "--listen", &place]);
    assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""));
    assert!(output.stderr.contains("or a file that is no socket"), "{}", output.stderr);
    assert_eq!(std::fs::read(folder.path("notes.txt")).unwrap(), b"not a socket");
}

#[test]
fn the_store_url_is_read_alike_from_a_file_and_an_argument() {
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
