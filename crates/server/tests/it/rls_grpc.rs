//! The rate limit service from a gRPC client that is not ours.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::Folder;
use crate::proxy_support::Proxy;
use crate::rls::{RULES, Rules};
use crate::support::Server;

/// A program of the clients that `./dev test` installs.
pub(crate) fn client(program: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("target/clients/envoy/bin").join(program);
    assert!(path.is_file(), "{} is missing: `./dev clients` installs it", path.display());
    path
}

fn python(args: &[&str]) -> Command {
    let mut command = Command::new(client("python"));
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/rls.py")).args(args);
    command
}

fn serve(rules: &Rules, grpc: &str) -> Server {
    let args = ["serve", "--listen", "127.0.0.1:0", "--grpc", grpc, "--envoy-config", rules.path()];
    Server::start_with(&args)
}

#[test]
fn a_stranger_is_answered_over_tcp_and_a_unix_socket() {
    let rules = Rules::new("grpc", &[("edge.yaml", RULES)]);
    let socket = format!("unix:{}/grpc.sock", rules.path());
    for grpc in ["127.0.0.1:0", &socket] {
        let server = serve(&rules, grpc);
        let said = python(&[server.grpc.as_deref().unwrap()]).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        // The same counter over HTTP.
        assert_eq!(server.remaining("edge/bare", "python"), 18);
    }
}

#[test]
fn a_stranger_is_answered_through_our_own_proxy() {
    let rules = Rules::new("proxied", &[("edge.yaml", RULES)]);
    let (folder, server) = (Folder::new(), serve(&rules, "127.0.0.1:0"));
    let upstream = format!("h2c://{}", server.grpc.as_deref().unwrap());
    let proxy = Proxy::start(&folder, &upstream, "", "");
    let said = python(&[&proxy.server.addr.to_string()]).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert_eq!(server.remaining("edge/bare", "python"), 18);
    let connected = server.metric(r#"tidegate_connections_total{door="grpc"}"#);
    assert_eq!(connected, Some(1.0), "all calls share one connection");
}

#[test]
fn who_watches_is_told_of_the_end_and_does_not_delay_it() {
    let rules = Rules::new("watch", &[("edge.yaml", RULES)]);
    let mut server = serve(&rules, "127.0.0.1:0");
    let mut watching =
        python(&[server.grpc.as_deref().unwrap(), "watch"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "watching");
    assert_eq!(server.stop("TERM").code(), Some(0));
    assert_eq!(lines.next().unwrap().unwrap(), "ok");
    assert!(watching.wait().unwrap().success());
}
