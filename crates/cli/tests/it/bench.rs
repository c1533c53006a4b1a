//! `tidegate bench`: its counts are those of the server, a server that stalls shows, and nothing is aimed at by accident.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::processes::{RedisServer, wait_until};
use crate::resp_support;
use crate::support::{DEADLINE, Folder, Said, Server, kill, run, tidegate};

/// One limit that is not renewed while a test runs, and one that nobody uses up.
const CONFIG: &str =
    "policies:\n  few: { algorithm: sliding-log, limit: 40/day }\n  many: { limit: 1000000/s }\n";
/// What three keys are allowed by it.
const ALLOWED: u64 = 3 * 40;
const REQUESTS: u64 = 500;
/// So many, of three keys, by few at once.
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

/// The address of each door that a server has.
fn doors(server: &Server) -> [(&'static str, String); 3] {
    let grpc = server.grpc.clone().unwrap();
    [("http", server.url()), ("resp", format!("redis://{}", server.resp_addr())), ("grpc", grpc)]
}

fn bench(args: &[&str]) -> Said {
    // Longer than any test takes: what ends a run is its number of requests, or the test.
    run(&[&["bench", "--duration", "1h"], args].concat())
}

/// What a run that goes well reports.
fn report(args: &[&str]) -> Value {
    let said = bench(&[&["--json"], args].concat());
    assert_eq!(said.code, Some(0), "{args:?}: {} {}", said.stdout, said.stderr);
    serde_json::from_str(&said.stdout).unwrap()
}

fn counts(row: &Value) -> [u64; 4] {
    ["requests", "allowed", "denied", "errors"].map(|name| row[name].as_u64().unwrap())
}

/// Requests, allowed, denied and errors of the first server.
fn counted(args: &[&str]) -> [u64; 4] {
    counts(&report(args)["servers"][0])
}

/// What the server has counted itself.
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
fn what_is_counted_is_what_the_server_has_counted() {
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
fn several_at_once_are_counted_one_by_one() {
    let folder = Folder::new();
    let server = serve(&folder);
    for (door, url) in &doors(&server)[1..] {
        let key = format!("{door}-{{}}");
        // The last burst is a shorter one.
        let args = ["--door", door, "--server", url, "--key", &key, "--pipeline", "7"];
        assert_eq!(counted(&[&args[..], &FEW].concat()), EXACT, "{door}");
    }
}

#[test]
fn a_server_of_its_own_is_gone_in_the_end() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    let temporary = folder.path("tmp");
    fs::create_dir(&temporary).unwrap();
    for door in ["http", "unix", "resp", "grpc"] {
        let args = ["bench", "--json", "--door", door, "-c", &config];
        let mut command = tidegate(&[&args[..], &FEW].concat());
        let ran = command.env("TMPDIR", &temporary).stderr(Stdio::inherit()).output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{door}");
        let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let row = &report["servers"][0];
        assert_eq!(counts(row), EXACT, "{door}");
        assert!(row["server_cpu_us_per_request"].is_number(), "{row}");
        // With the server its socket, and the folder that it was in.
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "{door}");
    }
}

#[test]
fn processor_time_is_told_of_a_single_request() {
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
fn the_library_itself_decides_the_same() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    assert_eq!(counted(&[&["--door", "embedded", "-c", &config], &FEW[..]].concat()), EXACT);
}

#[test]
fn a_limit_goes_along_or_is_given_to_the_server() {
    for door in ["resp", "http", "embedded"] {
        let args = ["--door", door, "--limit", "40/day"];
        assert_eq!(counted(&[&args[..], &FEW[2..]].concat()), EXACT, "{door}");
    }
}

/// A run without an end, once the server has answered so many.
fn under_load(server: &Server, more: &[&str], answered: u64) -> Child {
    let url = server.url();
    let args =
        ["bench", "--json", "--server", &url, "--duration", "1h", "--warm-up", "0s", "--policy"];
    let args = [&args[..], &["many", "--connections", "1"], more].concat();
    let child = tidegate(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the server is asked", DEADLINE, || seen(server, "many")[0] >= answered);
    child
}

/// Ctrl-C, and what is reported then.
fn stopped(child: Child) -> (Option<i32>, Value) {
    kill(&child, "INT");
    let output = child.wait_with_output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

/// The 99th percentile of a run in which the server stands still for some time.
fn p99_around_a_stall(stall: Duration, pace: &[&str], answered_before: u64) -> Duration {
    let folder = Folder::new();
    let server = serve(&folder);
    let child = under_load(&server, pace, answered_before);
    let before = seen(&server, "many")[0];
    server.signal("STOP");
    std::thread::sleep(stall);
    server.signal("CONT");
    // All that was due meanwhile has to be sent before it ends: at a hundred a second, no more than these.
    wait_until("what had to wait is answered", DEADLINE, || {
        seen(&server, "many")[0] >= before + 60
    });
    let (code, report) = stopped(child);
    assert_eq!((code, &report["stopped"]), (Some(0), &Value::Bool(true)), "{report}");
    Duration::from_secs_f64(report["servers"][0]["latency_us"]["p99"].as_f64().unwrap() / 1e6)
}

/// Of the sixty requests that were due during the stall, half had to wait for half of it or longer. Those are more than one
/// in a hundred, unless the rest of the run takes half a minute.
#[test]
fn a_stall_shows_where_requests_are_due_by_the_clock() {
    let stall = Duration::from_millis(600);
    let p99 = p99_around_a_stall(stall, &["--rate", "100/s"], 1);
    assert!(p99 >= stall / 2, "{p99:?}");
}

/// The control: who waits for an answer before asking again feels a stall once, however long it takes.
#[test]
fn a_stall_hides_where_requests_wait_for_answers() {
    let stall = Duration::from_millis(600);
    let p99 = p99_around_a_stall(stall, &[], 1000);
    assert!(p99 < stall / 2, "{p99:?}");
}

#[test]
fn a_rate_ends_after_as_many_requests_as_were_asked_for() {
    let folder = Folder::new();
    let server = serve(&folder);
    for (door, url) in doors(&server) {
        let args = ["--door", door, "--server", &url, "--rate", "2000", "--key"];
        let key = format!("{door}-{{}}");
        assert_eq!(counted(&[&args[..], &[&key], &FEW].concat()), EXACT, "{door}");
    }
}

/// Allows so many requests on one connection.
fn answers(stream: &mut TcpStream, requests: usize) {
    for _ in 0..requests {
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let mut bytes = [0; 1024];
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "hung up");
            request.extend_from_slice(&bytes[..count]);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"allowed\":true}";
        stream.write_all(answer).unwrap();
    }
}

#[test]
fn a_server_that_goes_away_is_reported_by_kind() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        // The first connection is there to find out what is spoken.
        answers(&mut listener.accept().unwrap().0, 1);
        let (mut stream, _) = listener.accept().unwrap();
        drop(listener);
        answers(&mut stream, 2);
    });
    let args = ["--json", "--server", &url, "--requests", "5", "--connections", "1"];
    let said = bench(&[&args[..], &["--warm-up", "0s"]].concat());
    serving.join().unwrap();
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    let row = &report["servers"][0];
    assert_eq!(counts(row), [5, 2, 0, 3]);
    let kinds = row["errors_by_kind"].as_array().unwrap().iter();
    let kinds = kinds.map(|it| (it["kind"].as_str().unwrap(), it["count"].as_u64().unwrap()));
    assert_eq!(kinds.collect::<Vec<_>>(), [("connect", 2), ("connection lost", 1)]);
    let first = row["errors_by_kind"][0]["first"].as_str().unwrap();
    assert!(first.contains("is the server running"), "{first}");
}

#[test]
fn another_tidegate_is_measured_in_turns() {
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
    let said = bench(&[&args[..], &["--requests", "100", "--warm-up", "0s"]].concat());
    for part in ["median", "per second", "p99.9", "over 5 rounds that took turns"] {
        assert!(said.stdout.contains(part), "{part}: {}", said.stdout);
    }
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
fn what_others_can_be_reached_at_needs_a_word_of_its_own() {
    let folder = Folder::new();
    let server = serve(&folder);
    // Reaches this machine, and is none of its own addresses.
    let url = format!("http://0.0.0.0:{}", server.addr.port());
    let args = [&["--server", &url, "--key", "remote-{}"], &FEW[..]].concat();
    let said = bench(&args);
    assert_eq!(said.code, Some(64), "{}", said.stderr);
    assert!(said.stderr.contains("--yes-remote"), "{}", said.stderr);
    assert_eq!(seen(&server, "few"), [0, 0]);
    assert_eq!(counted(&[&args[..], &["--yes-remote"]].concat()), EXACT);
    let against = ["--server", &server.url(), "--against", "http://192.0.2.1:80"];
    assert_eq!(bench(&[&against[..], &FEW].concat()).code, Some(64));
}

#[test]
fn a_redis_without_the_module_is_no_peer() {
    let redis = RedisServer::start();
    for (more, told) in [
        (&["--limit", "100/s"][..], "redis-server --loadmodule libredis_cell.so"),
        (&[], "say with --limit"),
    ] {
        let args = ["--door", "resp", "--against", &redis.url()];
        let said = bench(&[&args[..], more].concat());
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        assert!(said.stderr.contains(told) && said.stdout.is_empty(), "{}", said.stderr);
    }
}

#[test]
fn who_cannot_be_asked_is_told_with_what_to_do() {
    let folder = Folder::new();
    let server = serve(&folder);
    // Bound and closed again: nobody listens there now.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (http, resp) = (server.addr.to_string(), server.resp_addr().to_string());
    for (door, url, more, told) in [
        ("http", &nobody, &[][..], "is the server running"),
        ("grpc", &nobody, &[], "tidegate serve --grpc"),
        ("resp", &nobody, &[], "tidegate serve --resp"),
        ("http", &resp, &[], "does not speak what --door http speaks"),
        ("resp", &http, &[], "does not speak what --door resp speaks"),
        ("grpc", &http, &[], "cannot be asked"),
        ("http", &http, &["--policy", "fex"], "did you mean `few`?"),
        ("resp", &resp, &["--policy", "fex"], "did you mean `few`?"),
        ("grpc", &server.grpc.clone().unwrap(), &["--domain", "other"], "no limit has a say"),
    ] {
        let said = bench(&[&["--door", door, "--server", url], more].concat());
        assert_eq!(said.code, Some(1), "{door} {url}: {}", said.stderr);
        assert!(said.stderr.contains(told), "{door} {url}: {}", said.stderr);
    }
}

#[test]
fn a_command_line_that_makes_no_sense_exits_with_64() {
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
        &["--server", "https://127.0.0.1"],
        &["--server", "http://127.0.0.1:1", "-c", "tidegate.yaml"],
        &["--door", "grpc", "--descriptor", "nonsense"],
    ] {
        // As if it were typed: no duration of ours.
        let said = run(&[&["bench"], args].concat());
        assert_eq!(said.code, Some(64), "{args:?}: {} {}", said.stdout, said.stderr);
    }
}

#[test]
fn who_has_not_said_which_policy_is_told_how() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", CONFIG);
    for door in ["http", "resp", "embedded"] {
        let said = bench(&["--door", door, "-c", &config]);
        assert_eq!(said.code, Some(1), "{door}: {}", said.stderr);
        let told = ["no policy is called `api`", "say which with --policy"];
        assert!(told.iter().all(|part| said.stderr.contains(part)), "{door}: {}", said.stderr);
    }
}

#[test]
fn a_server_that_does_not_start_says_why() {
    let folder = Folder::new();
    let config = folder.write("tidegate.yaml", "policies: { few: { limit: nonsense } }\n");
    let said = bench(&["-c", &config]);
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    assert!(said.stderr.contains("nonsense") && said.stderr.contains("cannot start a server"));
}

/// A Unix socket of a server that runs already.
#[test]
fn a_unix_socket_is_asked_like_an_address() {
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
fn a_password_opens_the_door_and_is_not_repeated() {
    let folder = Folder::new();
    let password = folder.write("password", "open sesame\n");
    let server = resp_support::start(&["--resp-password-file", &password]);
    let place = server.resp_addr();
    for (user, key) in [("", "a-{}"), ("default", "b-{}")] {
        let url = format!("redis://{user}:open%20sesame@{place}");
        let args = ["--door", "resp", "--limit", "40/day", "--server", &url, "--key", key];
        assert_eq!(counted(&[&args[..], &FEW[2..]].concat()), EXACT, "{user}");
    }
    for (user, told) in [(":wrong@", "WRONGPASS"), ("", "put the password into the URL")] {
        let url = format!("redis://{user}{place}");
        let said = bench(&["--door", "resp", "--limit", "40/day", "--server", &url]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{}", said.stderr);
        assert!(said.stderr.contains("cannot be asked"), "{}", said.stderr);
        assert!(said.stderr.contains(told) && !said.stderr.contains("wrong"), "{}", said.stderr);
    }
}

#[test]
fn a_server_of_its_own_opens_no_door_of_the_configuration() {
    let folder = Folder::new();
    folder.write("password", "open sesame\n");
    // All taken, so that to open one would fail.
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

/// Who accepts and says nothing would be waited for in vain: Ctrl-C ends that, too.
#[test]
fn a_server_that_says_nothing_can_be_left() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    for door in ["http", "resp", "grpc"] {
        let mut child = tidegate(&["bench", "--door", door, "--server", &address]);
        let child = child.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        // It has asked, and waits.
        assert!(stream.read(&mut [0; 1]).unwrap() > 0, "{door}");
        kill(&child, "INT");
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8(ran.stderr).unwrap();
        assert_eq!(ran.status.code(), Some(1), "{door}: {said}");
        assert!(said.contains("stopped before anything was measured"), "{door}: {said}");
    }
}

#[test]
fn a_server_that_answers_with_errors_is_not_fast() {
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
    let said = bench(&[&args[..], &["--warm-up", "0s"]].concat());
    serving.join().unwrap();
    assert_eq!(said.code, Some(1), "{}", said.stderr);
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    let row = &report["servers"][0];
    assert_eq!(counts(row), [50, 2, 0, 48]);
    let bars = row["histogram"].as_array().unwrap().iter();
    assert_eq!(bars.map(|bar| bar["count"].as_u64().unwrap()).sum::<u64>(), 2, "{row}");
    let [per_second, seconds] = ["per_second", "seconds"].map(|name| row[name].as_f64().unwrap());
    assert!((per_second * seconds - 2.0).abs() < 0.01, "{row}");
}
