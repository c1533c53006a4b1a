//! The rate limit service with a stock gRPC client.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::proxy_support::Proxy;
use crate::rls::{RULES, Rules};
use crate::support::{Folder, Server};

/// A program that `./dev test` installs.
pub(crate) fn client(program: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("target/clients/envoy/bin").join(program);
    assert!(path.is_file(), "{} is missing: `./dev clients` installs it", path.display());
    path
}

pub(crate) fn python(args: &[&str]) -> Command {
    let mut command = Command::new(client("python"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/rls.py")).args(args);
    command
}

fn serve(rules: &Rules, grpc: &str) -> Server {
    let args = ["serve", "--listen", "127.0.0.1:0", "--grpc", grpc, "--envoy-config", rules.path()];
    Server::start_with(&args)
}

#[test]
fn a_stock_grpc_client_works_over_tcp_and_a_unix_socket() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let socket = format!("unix:{}/grpc.sock", rules.path());
    for grpc in ["127.0.0.1:0", &socket] {
        let server = serve(&rules, grpc);
        let output = python(&[server.grpc.as_deref().unwrap()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // HTTP uses the same counter.
        assert_eq!(server.remaining("edge/bare", "python"), 18);
    }
}

#[test]
fn a_stock_grpc_client_works_through_the_proxy_door() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let (folder, server) = (Folder::new(), serve(&rules, "127.0.0.1:0"));
    let upstream = format!("h2c://{}", server.grpc.as_deref().unwrap());
    let proxy = Proxy::start(&folder, &upstream, "", "");
    let output = python(&[&proxy.server.addr.to_string()]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.remaining("edge/bare", "python"), 18);
    // One to see at the start whether it answers, and one that all calls share.
    let connected = server.metric(r#"tidegate_connections_total{door="grpc"}"#);
    assert_eq!(connected, Some(2.0));
}

#[test]
fn a_health_watch_reports_the_shutdown_and_does_not_delay_it() {
    let rules = Rules::new(&[("edge.yaml", RULES)]);
    let mut server = serve(&rules, "127.0.0.1:0");
    let mut watching =
        python(&[server.grpc.as_deref().unwrap(), "watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "watching");
    assert_eq!(server.stop("TERM").code(), Some(0));
    assert_eq!(lines.next().unwrap().unwrap(), "ok");
    assert!(watching.wait().unwrap().success());
}

/// Loads two servers with clients that balance their calls, and sends a signal to the first. Returns the outcome of the
/// calls.
fn ended_under_load(signal: &str) -> (bool, String) {
    let servers = [(); 2].map(|()| {
        Server::start_with(&["serve", "--listen", "127.0.0.1:0", "--grpc", "127.0.0.1:0"])
    });
    let addresses = servers.each_ref().map(|server| server.grpc.clone().unwrap());
    let mut command = Command::new(client("python"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/rls_load.py")).args(addresses);
    let mut clients = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(clients.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(output.next().as_deref(), Some("loaded"));
    let [mut first, second] = servers;
    for server in [&first, &second] {
        let asked = server.metric("tidegate_check_duration_seconds_count{door=\"grpc\"}");
        assert!(asked.is_some_and(|asked| asked > 100.0), "{asked:?}");
    }
    let status = first.stop(signal);
    assert_eq!(status.success(), signal == "TERM", "{status}");
    drop(clients.stdin.take());
    let report = output.next().unwrap_or_default();
    (clients.wait().unwrap().success(), report)
}

#[test]
fn a_server_stopped_under_load_fails_no_call() {
    for _ in 0..3 {
        let (all_answered, report) = ended_under_load("TERM");
        assert!(all_answered, "{report}");
    }
}

#[test]
fn a_server_killed_under_load_is_noticed() {
    // The server may be killed between two calls.
    let notices = || !ended_under_load("KILL").0;
    assert!((0..5).any(|_| notices()));
}
