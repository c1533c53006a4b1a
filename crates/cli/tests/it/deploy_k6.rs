//! `deploy/k6`, run by a real k6 with few requests: it passes on a limit that holds, and fails on each that does not.

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::deploy::{ran, tool};
use crate::programs::root;
use crate::support::{Folder, Server};

/// Nothing refills while the test runs.
const CONFIG: &str = "
policies:
  five: { limit: 5/day }
  plenty: { limit: 1000000/day }
";

/// Runs the script with 20 requests in a second.
fn load(url: &str, variables: &[&str]) -> Result<String, String> {
    let mut k6 = tool("deploy", "bin/k6");
    k6.args(["run", "--quiet", "--no-color", "--no-usage-report", "--address", "localhost:0"]);
    let url = format!("URL={url}");
    // How fast a refusal is depends on the machine.
    let usual = [&url, "RATE=20", "SECONDS=1", "REFUSED_WITHIN_MS=60000", "PERIOD_S=86400"];
    for variable in usual.iter().chain(variables) {
        k6.args(["-e", variable]);
    }
    ran(k6.arg(root().join("deploy/k6/limits.js")))
}

/// The metrics whose thresholds a run has crossed.
fn crossed(url: &str, variables: &[&str]) -> String {
    let report = load(url, variables).unwrap_err();
    let line = report.lines().find(|line| line.contains("have been crossed")).expect(&report);
    let (_, rest) = line.split_once("metrics '").expect(line);
    rest.split_once('\'').expect(line).0.to_owned()
}

/// A limiter that admits one request and refuses all others with these header lines, 1000 at most.
fn limiter_with(headers: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().take(1000).enumerate() {
            let Ok(mut stream) = stream else { return };
            let status = if number == 0 { "200 OK" } else { "429 Too Many Requests" };
            // A small request comes in one piece.
            let _ = stream.read(&mut [0; 4096]);
            let end = "content-length: 0\r\nconnection: close\r\n\r\n";
            let _ = write!(stream, "HTTP/1.1 {status}\r\n{headers}{end}");
        }
    });
    url
}

#[test]
fn k6_passes_on_a_limit_that_holds_and_fails_on_each_that_does_not() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    let server = Server::start_with(&["serve", "--listen", "127.0.0.1:0", "-c", &config]);
    let policy = |name: &str| format!("http://{}/v1/auth/{name}", server.addr);
    let report = load(&policy("five"), &["LIMIT=5"]).unwrap();
    assert!(report.contains("count=5\n"), "five are allowed: {report}");
    load(&limiter_with("retry-after: 7\r\n"), &["LIMIT=1"]).unwrap();
    for (url, limit, metrics) in [
        // The budget of `five` is spent.
        (policy("five"), "LIMIT=5", "allowed"),
        (policy("plenty"), "LIMIT=5", "allowed, refused"),
        (policy("plenty"), "LIMIT=1000000", "refused"),
        (limiter_with(""), "LIMIT=1", "checks"),
        (limiter_with("retry-after: 0\r\n"), "LIMIT=1", "checks"),
        (limiter_with("retry-after: 7\r\ncache-control: max-age=60\r\n"), "LIMIT=1", "checks"),
    ] {
        let found = crossed(&url, &[limit]);
        assert_eq!(found, metrics, "{url}, {limit}");
    }
    let unknown = crossed(&policy("nowhere"), &["LIMIT=5"]);
    assert_eq!(unknown, "allowed, checks, http_req_failed, refused", "a 404 is no answer");
}

#[test]
fn a_variable_that_is_no_number_is_named() {
    let report = load("http://127.0.0.1:9/", &["LIMIT=5/s"]).unwrap_err();
    assert!(report.contains("LIMIT is not a number above 0: 5/s"), "{report}");
}
