//! `tidegate ready`: what a health check is told, over TCP and over a Unix socket.

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::programs::on_socket;
use crate::support::{Folder, Server, run};

fn ready(args: &[&str], code: i32, stdout: &str, stderr: &str) {
    let said = run(&[&["ready"], args].concat());
    assert_eq!(said.code, Some(code), "{args:?}: {} {}", said.stdout, said.stderr);
    assert!(said.stdout.starts_with(stdout), "{args:?}: {}", said.stdout);
    assert!(said.stderr.contains(stderr), "{args:?}: {}", said.stderr);
}

const SERVES: &str = r#"{"ready":true,"state":"serving","#;

#[test]
fn whoever_serves_is_ready_at_every_kind_of_address() {
    let (folder, server) = (Folder::new(), Server::start());
    ready(&["--server", &server.url()], 0, SERVES, "");
    ready(&["--server", &server.url(), "--strict"], 0, SERVES, "");
    let (_program, socket) = on_socket(&folder, "policies: { api: 10/h }");
    let place = format!("unix:{socket}");
    ready(&["--server", &place], 0, SERVES, "");
    let said = run(&["check", "api", "ann", "--server", &place]);
    assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{}", said.stdout);
}

#[test]
fn whoever_is_not_there_or_makes_no_sense_is_not() {
    let folder = Folder::new();
    let nobody = format!("unix:{}", folder.path("nobody.sock"));
    ready(
        &["--server", "http://127.0.0.1:1"],
        1,
        "",
        "cannot reach a server at http://127.0.0.1:1",
    );
    ready(&["--server", &nobody], 1, "", "cannot reach a server at unix:/");
    for place in ["127.0.0.1:8080", "https://127.0.0.1", "unix:", "unix:here.sock", ""] {
        ready(&["--server", place], 64, "", "expected http://127.0.0.1:8080 or unix:/run/");
    }
}

#[test]
fn a_store_that_is_gone_matters_to_the_strict_alone() {
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
