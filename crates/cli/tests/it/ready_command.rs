//! `tidegate ready`: a health check over TCP and over a Unix socket.

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::programs::on_socket;
use crate::support::{Folder, Server, run};

fn ready(args: &[&str], code: i32, stdout: &str, stderr: &str) {
    let output = run(&[&["ready"], args].concat());
    assert_eq!(output.code, Some(code), "{args:?}: {} {}", output.stdout, output.stderr);
    assert!(output.stdout.starts_with(stdout), "{args:?}: {}", output.stdout);
    assert!(output.stderr.contains(stderr), "{args:?}: {}", output.stderr);
}

const SERVES: &str = r#"{"ready":true,"state":"serving","#;

#[test]
fn a_serving_server_is_ready_at_every_kind_of_address() {
    let (folder, server) = (Folder::new(), Server::start());
    ready(&["--server", &server.url()], 0, SERVES, "");
    ready(&["--server", &server.url(), "--strict"], 0, SERVES, "");
    let (_program, socket) = on_socket(&folder, "policies: { api: 10/h }");
    let address = format!("unix:{socket}");
    ready(&["--server", &address], 0, SERVES, "");
    let output = run(&["check", "api", "ann", "--server", &address]);
    assert_eq!((output.code, &*output.stderr), (Some(0), ""), "{}", output.stdout);
}

#[test]
fn a_missing_server_is_not_ready_and_an_invalid_address_exits_with_64() {
    let folder = Folder::new();
    let closed = format!("unix:{}", folder.path("closed.sock"));
    ready(
        &["--server", "http://127.0.0.1:1"],
        1,
        "",
        "cannot reach a server at http://127.0.0.1:1",
    );
    ready(&["--server", &closed], 1, "", "cannot reach a server at unix:/");
    for address in ["127.0.0.1:8080", "https://127.0.0.1", "unix:", "unix:here.sock", ""] {
        ready(&["--server", address], 64, "", "expected http://127.0.0.1:8080 or unix:/run/");
    }
}

#[test]
fn a_store_outage_fails_only_strict() {
    let redis = RedisServer::start();
    let args = ["serve", "--listen", "127.0.0.1:0", "--store", &redis.url()];
    let server = Server::start_with(&args);
    redis.kill();
    wait_until("the strict notice", DEADLINE, || {
        run(&["ready", "--strict", "--server", &server.url()]).code == Some(1)
    });
    ready(&["--strict", "--server", &server.url()], 1, "", "not ready: {\"ready\":false");
    ready(&["--server", &server.url()], 0, r#"{"ready":true"#, "");
}
