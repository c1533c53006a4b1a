//! `tidegate bench`: it counts what the server counts, shows stalls, and loads no remote server by accident.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::processes::{RedisServer, free_port, wait_until};
use crate::programs::{App, Program, curl, wait_for_port};
use crate::resp_support;
use crate::support::{CommandOutput, DEADLINE, Folder, Server, kill, run, tidegate};
use crate::tls::Authority;

/// One limit that does not reset during a test, and one that no test exhausts.
const CONFIG: &str =
    "policies:\n  few: { algorithm: sliding-log, limit: 40/day }\n  many: { limit: 1000000/s }\n";
/// The requests that it allows for three keys.
const ALLOWED: u64 = 3 * 40;
const REQUESTS: u64 = 500;
/// Arguments of a short run with three keys.
const FEW: [&str; 10] = [
    "--policy",
    "few",
    "--keys",
    "3",
    "--requests",
    "500",
    "--connections",
    "4",
    "--warm-up",
    "0s",
];

fn serve(folder: &Folder) -> Server {
    let config = folder.write("tidegate.yaml", CONFIG);
    let any = "127.0.0.1:0";
    Server::start_with(&["serve", "-c", &config, "--listen", any, "--resp", any, "--grpc", any])
}

/// The address of each door of a server.
fn doors(server: &Server) -> [(&'static str, String); 3] {
    let grpc = server.grpc.clone().unwrap();
    [("http", server.url()), ("resp", format!("redis://{}", server.resp_addr())), ("grpc", grpc)]
}

fn bench(args: &[&str]) -> CommandOutput {
    // Longer than any test: a run ends by its number of requests, or by the test.
    run(&[&["bench", "--duration", "1h"], args].concat())
}

/// The report of a successful run.
fn report(args: &[&str]) -> Value {
    let printed = bench(&[&["--json"], args].concat());
    assert_eq!(printed.code, Some(0), "{args:?}: {} {}", printed.stdout, printed.stderr);
    serde_json::from_str(&printed.stdout).unwrap()
}

fn counts(row: &Value) -> [u64; 4] {
    ["requests", "allowed", "denied", "errors"].map(|name| row[name].as_u64().unwrap())
}

/// Requests, allowed, denied and errors of the first server.
fn counted(args: &[&str]) -> [u64; 4] {
    counts(&report(args)["servers"][0])
}

/// Allowed and denied checks, as the server counts them.
fn seen(server: &Server, policy: &str) -> [u64; 2] {
    ["allowed", "denied"].map(|status| {
        let series =
            format!("rate_limit_requests_total{{policy=\"{policy}\",status=\"{status}\"}}");
        let count = server.metric(&series).unwrap_or_default();
        format!("{count}").parse().unwrap()
    })
}

const EXACT: [u64; 4] = [REQUESTS, ALLOWED, REQUESTS - ALLOWED, 0];

#[test]
fn bench_and_server_count_the_same() {
    let folder = Folder::new();
    let server = serve(&folder);
    for (turn, (door, url)) in doors(&server).iter().enumerate() {
        let key = format!("{door}-{{}}");
        let args = ["--door", door, "--server", url, "--key", &key];
        assert_eq!(counted(&[&args[..], &FEW].concat()), EXACT, "{door}");
        let turns = u64::try_from(turn).unwrap() + 1;
        let expected = [ALLOWED, REQUESTS - ALLOWED].map(|count| count * turns);
        assert_eq!(seen(&server, "few"), expected, "{door}");
    }
}

#[test]
fn each_request_of_a_pipeline_is_counted() {
    let folder = Folder::new();
    let server = serve(&folder);
    for (door, url) in &doors(&server)[1..] {
        let key = format!("{door}-{{}}");
        // The last pipeline is shorter.
        let args = ["--door", door, "--server", url, "--key", &key, "--pipeline", "7"];
        assert_eq!(counted(&[&args[..], &FEW].concat()), EXACT, "{door}");
    }
}

#[test]
fn the_started_server_is_stopped_at_the_end() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    let temporary = folder.path("tmp");
    fs::create_dir(&temporary).unwrap();
    for door in ["http", "unix", "resp", "grpc", "auth"] {
        let args = ["bench", "--json", "--door", door, "-c", &config];
        let mut command = tidegate(&[&args[..], &FEW].concat());
        let ran = command.env("TMPDIR", &temporary).stderr(Stdio::inherit()).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{door}");
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let row = &report["servers"][0];
        assert_eq!(counts(row), EXACT, "{door}");
        assert!(row["server_cpu_us_per_request"].is_number(), "{row}");
        // The socket and its folder are removed as well.
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "{door}");
    }
}

#[test]
fn cpu_time_is_measured_even_for_a_single_request() {
    let report = report(&[
        "--requests",
        "1",
        "--connections",
        "1",
        "--warm-up",
        "0s",
        "--keys",
        "1",
        "--key",
        "k",
    ]);
    let cpu = report["servers"][0]["server_cpu_us_per_request"].as_f64().unwrap();
    assert!(cpu > 0.0, "{report}");
}

#[test]
fn the_embedded_library_decides_the_same() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    assert_eq!(counted(&[&["--door", "embedded", "-c", &config], &FEW[..]].concat()), EXACT);
}

#[test]
fn a_limit_is_sent_with_requests_or_configured_at_the_server() {
    for door in ["resp", "http", "embedded", "auth"] {
        let args = ["--door", door, "--limit", "40/day"];
        assert_eq!(counted(&[&args[..], &FEW[2..]].concat()), EXACT, "{door}");
    }
}

/// Starts an endless run. Returns when the server has answered this many requests.
fn under_load(server: &Server, more: &[&str], answered: u64) -> Child {
    let url = server.url();
    let args =
        ["bench", "--json", "--server", &url, "--duration", "1h", "--warm-up", "0s", "--policy"];
    let args = [&args[..], &["many", "--connections", "1"], more].concat();
    let child = tidegate(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the server is under load", DEADLINE, || seen(server, "many")[0] >= answered);
    child
}

/// Sends SIGINT, and returns the exit code and the report.
fn stopped(child: Child) -> (Option<i32>, Value) {
    kill(&child, "INT");
    let output = child.wait_with_output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// The 99th percentile of a run in which the server is paused for some time.
fn p99_around_a_stall(stall: Duration, pace: &[&str], answered_before: u64) -> Duration {
    let folder = Folder::new();
    let server = serve(&folder);
    let child = under_load(&server, pace, answered_before);
    let before = seen(&server, "many")[0];
    server.signal("STOP");
    std::thread::sleep(stall);
    server.signal("CONT");
    // All requests that were due during the stall have to be sent before the end: 60 at a hundred a second.
    wait_until("the delayed requests are answered", DEADLINE, || {
        seen(&server, "many")[0] >= before + 60
    });
    let (code, report) = stopped(child);
    assert_eq!((code, &report["stopped"]), (Some(0), &Value::Bool(true)), "{report}");
    Duration::from_secs_f64(report["servers"][0]["latency_us"]["p99"].as_f64().unwrap() / 1e6)
}

/// Of the sixty requests that were due during the stall, half waited for at least half of it. These are more than one in
/// a hundred, unless the rest of the run takes half a minute.
#[test]
fn an_open_loop_shows_a_stall() {
    let stall = Duration::from_millis(600);
    let p99 = p99_around_a_stall(stall, &["--rate", "100/s"], 1);
    assert!(p99 >= stall / 2, "{p99:?}");
}

/// The control: in a closed loop a stall of any length delays only one request.
#[test]
fn a_closed_loop_hides_a_stall() {
    let stall = Duration::from_millis(600);
    let p99 = p99_around_a_stall(stall, &[], 1000);
    assert!(p99 < stall / 2, "{p99:?}");
}

#[test]
fn a_run_at_a_rate_ends_after_the_given_number_of_requests() {
    let folder = Folder::new();
    let server = serve(&folder);
    for (door, url) in doors(&server) {
        let args = ["--door", door, "--server", &url, "--rate", "2000", "--key"];
        let key = format!("{door}-{{}}");
        assert_eq!(counted(&[&args[..], &[&key], &FEW].concat()), EXACT, "{door}");
    }
}

/// Answers this many requests on one connection.
fn answers(stream: &mut TcpStream, requests: usize) {
    for _ in 0..requests {
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "closed");
            request.extend_from_slice(&bytes[..count]);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"allowed\":true}";
        stream.write_all(answer).unwrap();
    }
}

#[test]
fn errors_of_a_lost_server_are_reported_by_kind() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        // The first connection only detects the protocol.
        answers(&mut listener.accept().unwrap().0, 1);
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        answers(&mut stream, 2);
    });
    let args = ["--json", "--server", &url, "--requests", "5", "--connections", "1"];
    let printed = bench(&[&args[..], &["--warm-up", "0s"]].concat());
    serving.join().unwrap();
    assert_eq!(printed.code, Some(1), "{}", printed.stderr);
    let report: Value = serde_json::from_str(&printed.stdout).unwrap();
    let row = &report["servers"][0];
    assert_eq!(counts(row), [5, 2, 0, 3]);
    let kinds = row["errors_by_kind"].as_array().unwrap().iter();
    let kinds = kinds.map(|it| (it["kind"].as_str().unwrap(), it["count"].as_u64().unwrap()));
    assert_eq!(kinds.collect::<Vec<_>>(), [("connect", 2), ("connection lost", 1)]);
    let first = row["errors_by_kind"][0]["first"].as_str().unwrap();
    assert!(first.contains("is the server running"), "{first}");
}

#[test]
fn two_servers_are_measured_in_alternating_rounds() {
    let (folder, other_folder) = (Folder::new(), Folder::new());
    let (server, other) = (serve(&folder), serve(&other_folder));
    for ((door, url), (_, against)) in doors(&server).iter().zip(doors(&other)) {
        let args = ["--door", door, "--server", url, "--against", &against, "--rounds", "4"];
        let key = format!("{door}-{{}}");
        let report = report(&[&args[..], &["--key", &key], &FEW].concat());
        for row in 0..2 {
            assert_eq!(counts(&report["servers"][row]), EXACT, "{door}");
        }
        let ratios = &report["ratios"];
        assert_eq!(ratios["rounds"], 4);
        for name in ["per_second", "p50", "p99"] {
            let [min, median, max] =
                ["min", "median", "max"].map(|part| ratios[name][part].as_f64().unwrap());
            assert!(0.0 < min && min <= median && median <= max, "{ratios}");
        }
    }
    assert_eq!(seen(&server, "few"), seen(&other, "few"));
    let args = ["--server", &server.url(), "--against", &other.url(), "--policy", "many"];
    let printed = bench(&[&args[..], &["--requests", "100", "--warm-up", "0s"]].concat());
    for part in ["median", "per second", "p99.9", "over 5 rounds that took turns"] {
        assert!(printed.stdout.contains(part), "{part}: {}", printed.stdout);
    }
    let once =
        bench(&[&args[..], &["--requests", "1", "--warm-up", "0s", "--rounds", "1"]].concat());
    assert!(once.stdout.contains(", over 1 round\n"), "{}", once.stdout);
}

#[test]
fn a_report_has_everything() {
    let report = report(&["--door", "embedded", "--requests", "1000", "--warm-up", "10ms"]);
    for (name, expected) in [
        ("door", "embedded".into()),
        ("loop", "closed".into()),
        ("connections", 1.into()),
        ("policy", "api".into()),
        ("keys", 10_000.into()),
        ("distribution", "uniform".into()),
        ("stopped", false.into()),
    ] {
        let expected: Value = expected;
        assert_eq!(report[name], expected, "{name}");
    }
    let row = &report["servers"][0];
    let latency: Vec<f64> = ["min", "p50", "p90", "p99", "p99_9", "max"]
        .map(|name| row["latency_us"][name].as_f64().unwrap())
        .to_vec();
    assert!(latency.is_sorted() && latency[0] > 0.0, "{latency:?}");
    let bars = row["histogram"].as_array().unwrap();
    assert_eq!(bars.iter().map(|bar| bar["count"].as_u64().unwrap()).sum::<u64>(), 1000);
    assert!(report.get("ratios").is_none() && row["per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_remote_address_needs_yes_remote() {
    let folder = Folder::new();
    let server = serve(&folder);
    // Reaches this machine, but is not a loopback address.
    let url = format!("http://0.0.0.0:{}", server.addr.port());
    let args = [&["--server", &url, "--key", "remote-{}"], &FEW[..]].concat();
    let printed = bench(&args);
    assert_eq!(printed.code, Some(64), "{}", printed.stderr);
    assert!(printed.stderr.contains("--yes-remote"), "{}", printed.stderr);
    assert_eq!(seen(&server, "few"), [0, 0]);
    assert_eq!(counted(&[&args[..], &["--yes-remote"]].concat()), EXACT);
    let against = ["--server", &server.url(), "--against", "http://192.0.2.1:80"];
    assert_eq!(bench(&[&against[..], &FEW].concat()).code, Some(64));
}

#[test]
fn a_redis_without_redis_cell_cannot_be_compared() {
    let redis = RedisServer::start();
    for (more, expected) in [
        (&["--limit", "100/s"][..], "redis-server --loadmodule libredis_cell.so"),
        (&[], "say with --limit"),
    ] {
        let args = ["--door", "resp", "--against", &redis.url()];
        let printed = bench(&[&args[..], more].concat());
        assert_eq!(printed.code, Some(1), "{}", printed.stderr);
        assert!(
            printed.stderr.contains(expected) && printed.stdout.is_empty(),
            "{}",
            printed.stderr
        );
    }
}

#[test]
fn a_server_that_cannot_be_measured_is_reported_with_a_hint() {
    let folder = Folder::new();
    let server = serve(&folder);
    let unused = format!("127.0.0.1:{}", free_port());
    let (http, resp) = (server.addr.to_string(), server.resp_addr().to_string());
    for (door, url, more, expected) in [
        ("http", &unused, &[][..], "is the server running"),
        ("grpc", &unused, &[], "tidegate serve --grpc"),
        ("resp", &unused, &[], "tidegate serve --resp"),
        ("http", &resp, &[], "does not speak what --door http speaks"),
        ("resp", &http, &[], "does not speak what --door resp speaks"),
        ("grpc", &http, &[], "cannot be asked"),
        ("http", &http, &["--policy", "fex"], "no policy is called `fex`"),
        ("resp", &resp, &["--policy", "fex"], "no policy is called `fex`"),
        ("grpc", &server.grpc.clone().unwrap(), &["--domain", "other"], "no limit has a say"),
        ("grpc", &server.grpc.clone().unwrap(), &["--policy", "fex"], "no policy is called `fex`"),
        ("proxy", &unused, &[], "tidegate proxy --upstream URL"),
        ("proxy", &http, &[], "is no proxy of tidegate"),
        ("proxy", &resp, &[], "does not speak what --door proxy speaks"),
        ("auth", &http, &["--policy", "fex"], "no policy is called `fex`"),
        ("http", &format!("https://{http}"), &[], "does it speak TLS there?"),
        ("resp", &format!("rediss://{resp}"), &[], "does it speak TLS there?"),
    ] {
        let printed = bench(&[&["--door", door, "--server", url], more].concat());
        assert_eq!(printed.code, Some(1), "{door} {url}: {}", printed.stderr);
        assert!(printed.stderr.contains(expected), "{door} {url}: {}", printed.stderr);
    }
}

#[test]
fn invalid_arguments_exit_with_64() {
    for args in [
        &["--door", "carrier-pigeon"][..],
        &["--connections", "0"],
        &["--connections", "4097"],
        &["--duration", "2h"],
        &["--duration", "0s"],
        &["--duration", "soon"],
        &["--rate", "0/s"],
        &["--rate", "fast"],
        &["--requests", "0"],
        &["--keys", "0"],
        &["--keys", "1000001"],
        &["--key", "fixed"],
        &["--key", ""],
        &["--cost", "-1"],
        &["--pipeline", "2"],
        &["--door", "resp", "--pipeline", "1024", "--connections", "4096"],
        &["--door", "embedded", "--rate", "1/s"],
        &["--door", "embedded", "--server", "http://127.0.0.1:1"],
        &["--door", "unix", "--server", "http://127.0.0.1:1"],
        &["--door", "resp", "--limit", "sliding-log 5/h"],
        &["--limit", "nonsense"],
        &["--limit", "1/s", "--policy", "api"],
        &["--server", "rediss://127.0.0.1"],
        &["--door", "resp", "--server", "https://127.0.0.1"],
        &["--door", "proxy", "--server", "redis://127.0.0.1"],
        &["--door", "proxy", "--server", "http://127.0.0.1:1", "--policy", "api"],
        &["--door", "proxy", "--server", "http://127.0.0.1:1", "--limit", "1/s"],
        &["--door", "auth", "--server", "http://127.0.0.1:1", "--cost", "2"],
        &["--door", "auth", "--path", "login"],
        &["--door", "auth", "--policy", "few?x"],
        &["--door", "auth", "--key-header", "x user"],
        &["--door", "auth", "--key", "user {}"],
        &["--path", "/login"],
        &["--door", "resp", "--key-header", "x-user"],
        &["--ca-file", "ca.pem"],
        &["--server", "https://127.0.0.1:1", "--ca-file", "/no/such/file"],
        &["--server", "http://127.0.0.1:1", "-c", "tidegate.yaml"],
        &["--door", "grpc", "--descriptor", "nonsense"],
    ] {
        // Without the duration that `bench` adds.
        let printed = run(&[&["bench"], args].concat());
        assert_eq!(printed.code, Some(64), "{args:?}: {} {}", printed.stdout, printed.stderr);
    }
}

#[test]
fn a_missing_policy_is_reported_with_a_hint() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    for door in ["http", "resp", "embedded", "auth", "proxy"] {
        let printed = bench(&["--door", door, "-c", &config]);
        assert_eq!(printed.code, Some(1), "{door}: {}", printed.stderr);
        let expected = ["no policy is called `api`", "say which with --policy"];
        assert!(
            expected.iter().all(|part| printed.stderr.contains(part)),
            "{door}: {}",
            printed.stderr
        );
    }
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", "policies: { few: { limit: nonsense } }\n");
    let printed = bench(&["-c", &config]);
    assert_eq!(printed.code, Some(1), "{}", printed.stderr);
    assert!(
        printed.stderr.contains("nonsense") && printed.stderr.contains("cannot start a server")
    );
}

/// The Unix socket of a running server.
#[test]
fn a_unix_socket_can_be_measured() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    let socket = folder.path("http.sock");
    let address = format!("unix:{socket}");
    let mut server = tidegate(&["serve", "-c", &config, "--listen", &address]);
    let (mut server, _) = crate::support::launch(server.stderr(Stdio::null()));
    let args = ["--door", "unix", "--server", &address];
    assert_eq!(counted(&[&args[..], &FEW].concat()), EXACT);
    let page = Command::new("curl")
        .args(["-s", "--unix-socket", &socket, "http://tidegate/metrics"])
        .output()
        .unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    let line =
        format!("rate_limit_requests_total{{policy=\"few\",status=\"allowed\"}} {ALLOWED}\n");
    assert!(page.contains(&line), "{page}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn a_password_authenticates_and_is_not_printed() {
    let folder = Folder::new();
    let password = folder.write("password", "open sesame\n");
    let server = resp_support::start(&["--resp-password-file", &password]);
    let place = server.resp_addr();
    for (user, key) in [("", "a-{}"), ("default", "b-{}")] {
        let url = format!("redis://{user}:open%20sesame@{place}");
        let args = ["--door", "resp", "--limit", "40/day", "--server", &url, "--key", key];
        assert_eq!(counted(&[&args[..], &FEW[2..]].concat()), EXACT, "{user}");
    }
    for (user, expected) in [(":wrong@", "WRONGPASS"), ("", "put the password into the URL")] {
        let url = format!("redis://{user}{place}");
        let printed = bench(&["--door", "resp", "--limit", "40/day", "--server", &url]);
        assert_eq!((printed.code, printed.stdout.as_str()), (Some(1), ""), "{}", printed.stderr);
        assert!(printed.stderr.contains("cannot be asked"), "{}", printed.stderr);
        assert!(
            printed.stderr.contains(expected) && !printed.stderr.contains("wrong"),
            "{}",
            printed.stderr
        );
    }
}

#[test]
fn the_started_server_opens_no_configured_doors() {
    let folder = Folder::new();
    folder.write("password", "open sesame\n");
    // All these addresses are in use, so that opening a door would fail.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let listen = format!(
        "listen:\n  http: {{ address: \"{taken}\", proxy_protocol: true }}\n  proxy: \"{taken}\"\n  \
         resp: {{ address: \"{taken}\", password_file: {} }}\n\
         proxy: {{ upstream: \"http://127.0.0.1:1\" }}\nclient_ip: {{ trusted_proxies: [127.0.0.1] }}\n",
        folder.path("password")
    );
    let config = folder.write("tidegate.yaml", listen + CONFIG);
    for door in ["http", "resp"] {
        let args = ["--door", door, "-c", &config];
        assert_eq!(counted(&[&args[..], &FEW].concat()), EXACT, "{door}");
    }
}

/// The server accepts the connection and never answers.
#[test]
fn ctrl_c_ends_the_wait_for_a_silent_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for door in ["http", "resp", "grpc"] {
        let mut child = tidegate(&["bench", "--door", door, "--server", &address]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        // It has sent its request, and waits.
        assert!(stream.read(&mut [0; 1]).unwrap() > 0, "{door}");
        kill(&child, "INT");
        let ran = child.wait_with_output().unwrap();
        let printed = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{door}: {printed}");
        assert!(printed.contains("stopped before anything was measured"), "{door}: {printed}");
    }
}

#[test]
fn error_answers_are_not_counted_as_throughput() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        answers(&mut listener.accept().unwrap().0, 1);
        let (mut stream, _) = listener.accept().unwrap();
        answers(&mut stream, 2);
        let mut request = [0; 4096];
        while stream.read(&mut request).unwrap_or_default() > 0 {
            stream.write_all(b"HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n").unwrap();
        }
    });
    let args = ["--json", "--server", &url, "--requests", "50", "--connections", "1"];
    let printed = bench(&[&args[..], &["--warm-up", "0s"]].concat());
    serving.join().unwrap();
    assert_eq!(printed.code, Some(1), "{}", printed.stderr);
    let report: Value = serde_json::from_str(&printed.stdout).unwrap();
    let row = &report["servers"][0];
    assert_eq!(counts(row), [50, 2, 0, 48]);
    let bars = row["histogram"].as_array().unwrap().iter();
    assert_eq!(bars.map(|bar| bar["count"].as_u64().unwrap()).sum::<u64>(), 2, "{row}");
    let [per_second, seconds] = ["per_second", "seconds"].map(|name| row[name].as_f64().unwrap());
    assert!((per_second * seconds - 2.0).abs() < 0.01, "{row}");
}

/// A server with every door, and an app behind its proxy. Requests count by a header.
struct EveryDoor {
    _program: Program,
    app: App,
    folder: Folder,
    /// Of http, proxy, grpc and resp.
    ports: [u16; 4],
}

impl EveryDoor {
    /// With TLS if an authority signs its certificate.
    fn start(authority: Option<&Authority>) -> Self {
        let (folder, app, ports) = (Folder::new(), App::start(), [(); 4].map(|()| free_port()));
        let tls = authority.map(|authority| {
            folder.write("ca.pem", authority.0.pem());
            let [cert, key] = authority.sign(&folder, "server", "server");
            format!(", tls: {{ cert: {cert}, key: {key} }}")
        });
        let tls = tls.unwrap_or_default();
        let door =
            |(name, port): (&str, u16)| format!("  {name}: {{ address: 127.0.0.1:{port}{tls} }}\n");
        let doors: String =
            ["http", "proxy", "grpc", "resp"].into_iter().zip(ports).map(door).collect();
        let upstream = format!("proxy: {{ upstream: http://127.0.0.1:{} }}\n", app.port);
        let routes = "routes:\n  - { match: { path: /free }, policy: many }\n  \
                      - { match: { path: '/*' }, policy: few, key: 'header:x-user' }\n";
        let config = format!("{CONFIG}{routes}{upstream}listen:\n{doors}");
        let config = folder.write("tidegate.yaml", config);
        let program = Program::start(&mut tidegate(&["serve", "-c", &config]), &folder);
        ports.into_iter().for_each(wait_for_port);
        Self { _program: program, app, folder, ports }
    }

    /// The doors with their URLs.
    fn urls(&self, tls: bool, host: &str) -> [(&'static str, String); 5] {
        let (http, redis) = if tls { ("https", "rediss") } else { ("http", "redis") };
        let [api, proxy, grpc, resp] = self.ports;
        [
            ("http", format!("{http}://{host}:{api}")),
            ("proxy", format!("{http}://{host}:{proxy}")),
            ("auth", format!("{http}://{host}:{api}")),
            ("grpc", format!("{http}://{host}:{grpc}")),
            ("resp", format!("{redis}://{host}:{resp}")),
        ]
    }
}

/// Arguments of a run at a door of such a server, with keys of their own.
fn at_door<'a>(door: &'a str, url: &'a str, key: &'a str) -> Vec<&'a str> {
    // Routes choose the policy.
    let few = if matches!(door, "proxy" | "auth") { &FEW[2..] } else { &FEW };
    [&["--door", door, "--server", url, "--key", key], few].concat()
}

#[test]
fn doors_with_routes_count_what_the_server_counts() {
    let server = EveryDoor::start(None);
    for (door, url) in &server.urls(false, "127.0.0.1")[1..3] {
        let key = format!("{door}-{{}}");
        assert_eq!(counted(&at_door(door, url, &key)), EXACT, "{door}");
    }
    // Both runs together. Each has asked once before, with a key of its own, to see who answers.
    let page = curl(&[&format!("http://127.0.0.1:{}/metrics", server.ports[0])]);
    for (status, count) in [("allowed", 2 * (ALLOWED + 1)), ("denied", 2 * (REQUESTS - ALLOWED))] {
        let line =
            format!("rate_limit_requests_total{{policy=\"few\",status=\"{status}\"}} {count}\n");
        assert!(page.contains(&line), "{line}{page}");
    }
}

#[test]
fn every_door_can_be_measured_over_tls() {
    let authority = Authority::new("authority of bench");
    let server = EveryDoor::start(Some(&authority));
    let ca = server.folder.path("ca.pem");
    for (door, url) in &server.urls(true, "localhost") {
        let key = format!("{door}-{{}}");
        let args = at_door(door, url, &key);
        assert_eq!(counted(&[&args[..], &["--ca-file", &ca]].concat()), EXACT, "{door}");
    }
}

#[test]
fn a_failed_handshake_says_what_to_pass() {
    let authority = Authority::new("authority of bench");
    let server = EveryDoor::start(Some(&authority));
    let other = Authority::new("another").0.pem();
    let (ca, wrong) = (server.folder.path("ca.pem"), server.folder.write("wrong.pem", other));
    let by = |tls, host| server.urls(tls, host);
    for (index, (door, url)) in by(true, "localhost").iter().enumerate() {
        let [_, other_name] = [url, &by(true, "127.0.0.1")[index].1];
        let plain = &by(false, "localhost")[index].1;
        for (url, ca, expected) in [
            (
                url,
                Some(&wrong),
                "pass the certificate of the authority that signed it with --ca-file",
            ),
            (other_name, Some(&ca), "its certificate is for other names"),
            (plain, None, if *door == "grpc" { "does not speak what" } else { "it speaks TLS" }),
        ] {
            let ca: Vec<&str> = ca.iter().flat_map(|ca| ["--ca-file", ca.as_str()]).collect();
            let printed = bench(&[&["--door", door, "--server", url.as_str()], &ca[..]].concat());
            assert_eq!(printed.code, Some(1), "{door} {url}: {}", printed.stderr);
            assert!(printed.stderr.contains(expected), "{door} {url}: {}", printed.stderr);
        }
    }
}

/// `openssl req -x509` makes such a certificate unless it is told otherwise.
#[test]
fn a_server_with_the_certificate_of_an_authority_is_told_how_to_make_one() {
    let (folder, authority) = (Folder::new(), Authority::new("its own authority"));
    let cert = folder.write("own.pem", authority.0.pem());
    let key = folder.write("own.key", authority.0.key().serialize_pem());
    let port = free_port();
    let listen = format!(
        "listen: {{ http: {{ address: 127.0.0.1:{port}, tls: {{ cert: {cert}, key: {key} }} }} }}\n"
    );
    let config = folder.write("tidegate.yaml", format!("{CONFIG}{listen}"));
    let _program = Program::start(&mut tidegate(&["serve", "-c", &config]), &folder);
    wait_for_port(port);
    let url = format!("https://localhost:{port}");
    let printed = bench(&["--server", &url, "--policy", "few", "--ca-file", &cert]);
    assert_eq!(printed.code, Some(1), "{}", printed.stderr);
    let hint = "make it with `-addext basicConstraints=critical,CA:FALSE`";
    assert!(printed.stderr.contains(hint), "{}", printed.stderr);
}

/// The upstream refuses nothing, so it serves all requests; those that the proxy refuses never reach it.
#[test]
fn a_proxy_is_measured_beside_its_upstream() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    let args = ["--door", "proxy", "-c", &config, "--rounds", "2"];
    let report = report(&[&args[..], &FEW].concat());
    let servers = report["servers"].as_array().unwrap();
    assert_eq!(servers.iter().map(counts).collect::<Vec<_>>(), [EXACT, [REQUESTS, REQUESTS, 0, 0]]);
    assert_eq!(servers[1]["name"], "its upstream, asked directly");
    assert_eq!((&report["ratios"]["rounds"], &report["policy"]), (&2.into(), &"few".into()));
    assert!(servers[0]["server_cpu_us_per_request"].is_number(), "{report}");
}

#[test]
fn a_running_proxy_is_compared_with_its_site() {
    let server = EveryDoor::start(None);
    let site = format!("http://127.0.0.1:{}", server.app.port);
    let [_, (_, proxy), ..] = server.urls(false, "localhost");
    let args = [at_door("proxy", &proxy, "c-{}"), vec!["--against", &site]].concat();
    let report = report(&args);
    assert_eq!(counts(&report["servers"][0]), EXACT);
    assert_eq!(counts(&report["servers"][1]), [REQUESTS, REQUESTS, 0, 0]);
    assert!(report["policy"].is_null() && report["ratios"]["p50"]["median"].is_number());
}

#[test]
fn forward_auth_goes_by_path_policy_or_says_that_nothing_is_limited() {
    let server = EveryDoor::start(None);
    let [_, _, (_, url), ..] = server.urls(false, "127.0.0.1");
    let few = ["--door", "auth", "--server", &url, "--requests", "50", "--connections", "1"];
    let few = [&few[..], &["--warm-up", "0s"]].concat();
    // The policy itself counts by address: one key, and the first request is the probe's.
    let by_policy = report(&[&few[..], &["--policy", "few"]].concat());
    assert_eq!(counts(&by_policy["servers"][0]), [50, 39, 11, 0]);
    assert!(by_policy["servers"][0].get("note").is_none(), "{by_policy}");
    // The control: nothing is limited without routes.
    let folder = Folder::new();
    let free = serve(&folder);
    let args = ["--door", "auth", "--server", &free.url(), "--requests", "50", "--warm-up", "0s"];
    let unlimited = report(&args);
    assert_eq!(counts(&unlimited["servers"][0]), [50, 50, 0, 0]);
    let note = unlimited["servers"][0]["note"].as_str().unwrap();
    for cause in ["no route matches --path", "`client_ip.trusted_proxies`"] {
        assert!(note.contains(cause), "{note}");
    }
}
