//! The start of `tidegate proxy`: what its log says, and addresses that cannot work.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use crate::processes::wait_until;
use crate::programs::ReservedPort;
use crate::proxy_support::{Origin, Proxy, by_hand};
use crate::support::{DEADLINE, Folder, Server, run, tidegate};

fn command(upstream: &str, options: &[&str]) -> Command {
    let always = ["proxy", "--upstream", upstream, "--listen", "127.0.0.1:0"];
    tidegate(&[&always, options].concat())
}

/// Waits until a log has a line with all of these words.
fn logged(log: &str, words: &[&str]) {
    wait_until(&format!("the log has {words:?}"), DEADLINE, || count(log, words) > 0);
}

fn count(log: &str, words: &[&str]) -> usize {
    let written = std::fs::read_to_string(log).unwrap();
    written.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
}

#[test]
fn one_client_cannot_use_up_a_healthy_url_with_the_help_s_own_example() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let log = folder.path("log");
    let options = ["--limit", "240/min", "--adaptive", "--trusted-proxies", "127.0.0.0/8"];
    let proxy = Proxy::logged(&mut command(&origin.url(), &options), &log);
    let get =
        |client, path| proxy.server.send("GET", path, &[("X-Forwarded-For", client)], b"").status;
    // One asset is asked for more often than the cap that all clients shared.
    for number in 0..300 {
        assert_eq!(get("192.0.2.1", "/app.css"), 200, "{number}");
    }
    assert_eq!(get("192.0.2.2", "/app.css"), 200, "another client");
    let pages = (0..260).map(|_| get("192.0.2.1", "/")).filter(|status| *status == 200).count();
    assert!(pages >= 240, "{pages}");
    assert_eq!(get("192.0.2.2", "/"), 200, "another client");
    logged(&log, &["limit of each URL, all clients together: no cap while healthy"]);
    assert_eq!(count(&log, &["one client can use up"]), 0);
}

#[test]
fn the_log_says_which_limits_are_in_force_and_where_they_come_from() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let log = folder.path("log");
    let start = |options: &[&str]| Proxy::logged(&mut command(&origin.url(), options), &log);
    let proxy = start(&["--limit", "20/min"]);
    logged(&log, &["\"store\":\"memory:\"", "\"configuration\":\"the command line\""]);
    logged(&log, &["limit of each client: 20/min, for pages and API calls"]);
    logged(&log, &["limit of each client for assets: ten times that"]);
    logged(&log, &["`20/min` admits up to twice in the first period: 40 in a minute"]);
    assert_eq!(count(&log, &["no limit is set"]), 0);
    drop(proxy);
    let proxy = start(&[]);
    logged(&log, &["WARN", "no limit is set: every request passes"]);
    drop(proxy);
    let proxy = start(&["--adaptive"]);
    logged(&log, &["limit of each URL, all clients together: 240/min"]);
    logged(&log, &["WARN", "one client can use up a URL for all others"]);
    drop(proxy);
    let file = folder.write("it.yaml", "policies: { api: 5/s }");
    for (args, origin) in [
        (&["serve", "-c", &file, "--listen", "127.0.0.1:0"][..], &*file),
        (&["serve", "--listen", "127.0.0.1:0"], "built-in demo"),
    ] {
        let _server = Server::start_logged(args, &log);
        logged(&log, &[&format!("\"configuration\":\"{origin}\"")]);
    }
}

#[test]
fn a_configuration_file_beside_the_proxy_command_is_not_read_and_the_log_says_so() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    folder.write("tidegate.yaml", "policies: { limit: sliding-log 1/h }");
    let log = folder.path("log");
    let mut command = command(&origin.url(), &["--limit", "sliding-log 2/h"]);
    let proxy = Proxy::logged(command.current_dir(folder.path(".")), &log);
    assert_eq!([(); 3].map(|()| proxy.server.get("/").status), [200, 200, 429]);
    logged(&log, &["WARN", "tidegate.yaml is not read", "`limit`"]);
}

#[test]
fn an_upstream_that_does_not_answer_is_warned_of_once_at_the_start() {
    let (folder, origin) = (Folder::new(), Origin::mirror());
    let log = folder.path("log");
    let (up, down) = (origin.url(), "http://127.0.0.1:1".to_owned());
    let proxy = Proxy::logged(&mut command(&up, &["--upstream", &down]), &log);
    let warning = |upstream: &str| ["upstream does not answer yet".to_owned(), upstream.to_owned()];
    let warned = |upstream| count(&log, &warning(upstream).each_ref().map(String::as_str));
    wait_until("the warning", DEADLINE, || warned(&down) == 1);
    wait_until("the look at the other", DEADLINE, || origin.connections() > 0);
    assert_eq!(proxy.server.get("/").status, 200);
    assert_eq!((warned(&down), warned(&up)), (1, 0));
}

#[test]
fn a_proxy_that_points_at_itself_does_not_start() {
    let reserved = ReservedPort::new();
    let port = reserved.port;
    for upstream in [format!("http://127.0.0.1:{port}"), format!("http://localhost:{port}")] {
        let listen = format!("127.0.0.1:{port}");
        let ran = run(&["proxy", "--upstream", &upstream, "--listen", &listen, "--limit", "9/s"]);
        assert_eq!(ran.code, Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("is the address of this proxy"), "{}", ran.stderr);
    }
}

#[test]
fn a_request_that_comes_back_is_answered_with_508_and_the_log_says_why() {
    let (folder, own) = (Folder::new(), Arc::<OnceLock<SocketAddr>>::default());
    let log = folder.path("log");
    // An upstream that leads back to the proxy, which the addresses alone do not tell.
    let proxy_addr = own.clone();
    let relay = by_hand(move |mut from_proxy| {
        let Some(addr) = proxy_addr.get() else { return };
        let mut to_proxy = TcpStream::connect(addr).unwrap();
        let (mut back_from, mut back_to) =
            (to_proxy.try_clone().unwrap(), from_proxy.try_clone().unwrap());
        std::thread::spawn(move || copy(&mut back_from, &mut back_to));
        copy(&mut from_proxy, &mut to_proxy);
    });
    let upstream = format!("http://{relay}");
    let options = ["--limit", "sliding-log 2/h"];
    let proxy = Proxy::logged(&mut command(&upstream, &options), &log);
    own.set(proxy.server.addr).unwrap();
    let reply = proxy.server.get("/");
    assert_eq!(reply.status, 508, "{}", reply.body);
    assert!(reply.body.contains("leads to the proxy itself"), "{}", reply.body);
    logged(&log, &["ERROR", "came back", &upstream]);
    // The request was charged once, and not for its way round.
    assert_eq!(proxy.server.get("/").status, 508);
    assert_eq!(proxy.server.get("/").status, 429);
}

fn copy(from: &mut TcpStream, to: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
