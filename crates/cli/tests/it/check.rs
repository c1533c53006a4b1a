//! `tidegate check`: its output and exit codes.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::{Server, run};

/// Runs `tidegate check`, and compares the exit code and parts of the output.
fn check(args: &[&str], code: i32, stdout: &str, stderr: &str) {
    let output = run(&[&["check"], args].concat());
    assert_eq!(output.code, Some(code), "{args:?}: {} {}", output.stdout, output.stderr);
    assert!(output.stdout.contains(stdout), "{args:?}: {}", output.stdout);
    assert!(output.stderr.contains(stderr), "{args:?}: {}", output.stderr);
    assert_eq!(output.stdout.is_empty(), stdout.is_empty(), "{args:?}: {}", output.stdout);
    assert_eq!(output.stderr.is_empty(), stderr.is_empty(), "{args:?}: {}", output.stderr);
}

#[test]
fn the_exit_code_is_the_decision() {
    let server = Server::start();
    let url = server.url();
    for (args, code, stdout, stderr) in [
        (&["login", "ann"][..], 0, "allowed: 4 of 5 left in login", ""),
        (&["login", "ann", "--cost", "4"], 0, "allowed: 0 of 5", ""),
        (&["login", "ann"], 2, "denied: 0 of 5 left in login, come back in ", ""),
        (&["login", "ann", "--cost", "0"], 0, "allowed", ""),
        (&["api", "ann", "--cost", "21"], 2, "never", ""),
        (&["plan", "ann"], 0, "left in second", ""),
        (&["api", "--", "-dash"], 0, "allowed", ""),
        (&["apii", "ann"], 1, "", "did you mean `api`?"),
        (&["export", "ann"], 1, "", "/v1/reserve"),
        (&["api", ""], 1, "", "`key` is empty"),
        (&["a\nb", "ann"], 1, "", r"`a\nb`"),
    ] {
        check(&[&["--server", &url], args].concat(), code, stdout, stderr);
    }
}

#[test]
fn json_is_the_answer_of_the_server() {
    let server = Server::start();
    let output = run(&["check", "api", "ann", "--json", "--server", &server.url()]);
    let expected = r#"{"allowed":true,"limit":20,"remaining":19,"retry_after_ms":0,"reset_after_ms":600,"policy":"api","binding":"api","source":"store"}"#;
    assert_eq!(output.stdout, format!("{expected}\n"));
    assert_eq!(output.code, Some(0));
    let denied = run(&["check", "api", "ann", "--json", "--cost", "21", "--server", &server.url()]);
    assert!(denied.stdout.contains(r#""retry_after_ms":null"#), "{}", denied.stdout);
    assert_eq!(denied.code, Some(2));
}

#[test]
fn invalid_arguments_exit_with_64() {
    for args in [
        &[][..],
        &["api"],
        &["api", "ann", "ben"],
        &["api", "ann", "--cost", "-1"],
        &["api", "ann", "--cost", "1.5"],
        &["api", "ann", "--cost", "nan"],
        &["api", "ann", "--cost", "9007199254740993"],
        &["api", "ann", "--server", "nonsense"],
        &["api", "ann", "--server", "https://127.0.0.1"],
        &["api", "ann", "--frob"],
    ] {
        check(args, 64, "", "error:");
    }
}

#[test]
fn a_missing_server_is_reported_with_how_to_start_one() {
    // Bound and closed again: nothing listens there now.
    let addr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    check(&["api", "ann", "--server", &format!("http://{addr}")], 1, "", "tidegate serve");
}

#[test]
fn a_server_that_is_not_tidegate_is_an_error() {
    for (reply, stderr) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "does not answer like tidegate"),
        ("HTTP/1.1 502 Bad\r\nContent-Length: 2\r\n\r\nhi", "status 502"),
        ("HTTP/1.1 400 Bad\r\nContent-Length: 21\r\n\r\n{\"detail\":\"a\\u001bb\"}", r"a\u{1b}b"),
        ("SSH-2.0-OpenSSH\r\n", "broke off"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
        });
        check(&["api", "ann", "--server", &url], 1, "", stderr);
        answering.join().unwrap();
    }
}
