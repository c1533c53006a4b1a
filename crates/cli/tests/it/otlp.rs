//! Spans and metrics, as a third-party OpenTelemetry collector receives them.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};

use serde_json::Value;

use crate::fleet::question;
use crate::processes::{DEADLINE, wait_for};
use crate::programs::{App, curl, free_port, root, wait_for_port};
use crate::support::{Folder, Server, tidegate};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// A collector, stopped when dropped.
struct Collector {
    child: Child,
    _until: ChildStdin,
    received: Receiver<Value>,
    url: String,
}

impl Collector {
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/otlp_receiver.py");
        let python = root().join("target/clients/otlp/bin/python");
        assert!(python.exists(), "{} is missing: `./dev clients` installs it", python.display());
        let mut command = Command::new(python);
        command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let url = format!("http://127.0.0.1:{}", lines.next().expect("a port"));
        let (send, received) = mpsc::channel();
        std::thread::spawn(move || {
            let read = |line: String| serde_json::from_str(&line).unwrap();
            lines.map(read).try_for_each(|message: Value| send.send(message))
        });
        Self { _until: child.stdin.take().unwrap(), child, received, url }
    }

    /// Reads messages until `find` finds something in one.
    fn until<T>(&self, what: &str, find: impl Fn(&Value) -> Option<T>) -> T {
        wait_for(what, DEADLINE, || self.received.try_iter().find_map(|message| find(&message)))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that exports to a collector at a short interval.
fn serve(folder: &Folder, url: &str) -> Server {
    let policies = "policies: { api: { algorithm: fixed-window, limit: 1/day } }\n";
    let config = format!("telemetry: {{ otlp: \"{url}\" }}\ndrain: 0s\n{policies}");
    let config = folder.write("tidegate.yaml", config);
    let any = "127.0.0.1:0";
    let mut command = tidegate(&["serve", "-c", &config, "--listen", any, "--grpc", any]);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "50").env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    Server::launched(command.stderr(Stdio::null()))
}

fn all<'v>(message: &'v Value, path: &[&str]) -> Vec<&'v Value> {
    path.iter().fold(vec![message], |found, key| {
        found.iter().filter_map(|it| it[key].as_array()).flatten().collect()
    })
}

fn spans(message: &Value) -> Vec<&Value> {
    all(message, &["resourceSpans", "scopeSpans", "spans"])
}

/// An attribute of a span or a sample, as text.
fn attribute(of: &Value, name: &str) -> Option<String> {
    let found = of["attributes"].as_array()?.iter().find(|it| it["key"] == name)?;
    let value = found["value"].as_object()?.values().next()?;
    Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// Converts 16 or 32 hex digits to base64, the encoding of bytes in JSON.
fn base64(hex: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = hex
        .chars()
        .flat_map(|digit| {
            let digit = digit.to_digit(16).unwrap();
            (0..4).rev().map(move |bit| u8::from(digit >> bit & 1 == 1))
        })
        .collect();
    let mut out: String = bits
        .chunks(6)
        .map(|six| {
            let value =
                (0..6).fold(0, |value, bit| value << 1 | six.get(bit).copied().unwrap_or(0));
            char::from(DIGITS[usize::from(value)])
        })
        .collect();
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{CALLER}-{flags}")
}

fn check(server: &Server, traceparent: Option<&str>) -> u16 {
    let headers: Vec<_> = traceparent.map(|it| ("traceparent", it)).into_iter().collect();
    server.send("POST", "/v1/check", &headers, br#"{"policy":"api","key":"ann"}"#).status
}

#[test]
fn a_traced_check_has_a_span_with_the_caller_as_parent() {
    let (folder, collector) = (Folder::new(), Collector::start());
    let server = serve(&folder, &collector.url);
    // These two requests are not sampled.
    assert_eq!(check(&server, None), 200);
    assert_eq!(check(&server, Some(&traceparent("00"))), 200);
    assert_eq!(check(&server, Some(&traceparent("01"))), 200);
    let span = collector.until("a span", |message| spans(message).first().map(|it| (*it).clone()));
    assert_eq!(span["name"], "check");
    assert_eq!(span["kind"], "SPAN_KIND_SERVER");
    assert_eq!(span["traceId"], base64(TRACE));
    assert_eq!(span["parentSpanId"], base64(CALLER));
    let of = |name| attribute(&span, name).unwrap_or_default();
    assert_eq!(of("tidegate.policy"), "api");
    assert_eq!((&*of("tidegate.allowed"), &*of("tidegate.source")), ("false", "store"));
    assert!(!span.to_string().contains("ann"), "{span}");
    let time = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(time("startTimeUnixNano") <= time("endTimeUnixNano"), "{span}");
    // The same over gRPC, as Envoy sends it.
    let (question, method) = (
        folder.write("question", question()),
        "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
    );
    curl(&[
        "--http2-prior-knowledge",
        "-H",
        "content-type: application/grpc",
        "-H",
        "te: trailers",
        "-H",
        &format!("traceparent: {}", traceparent("01")),
        "--data-binary",
        &format!("@{question}"),
        "-o",
        &folder.path("answer"),
        &format!("http://{}/{method}", server.grpc.as_deref().unwrap()),
    ]);
    let span = collector.until("a span", |message| spans(message).first().map(|it| (*it).clone()));
    assert_eq!(
        (&span["traceId"], attribute(&span, "tidegate.policy").as_deref()),
        (&base64(TRACE).into(), Some("api"))
    );
}

/// A leaky bucket delays or refuses, through the API and in the proxy.
#[test]
fn a_traced_reservation_has_a_span_whether_it_is_accepted_or_refused() {
    let (folder, collector, app) = (Folder::new(), Collector::start(), App::start());
    let (proxy, upstream) = (free_port(), app.port);
    let bucket = "{ algorithm: leaky-bucket, limit: 1/day, max_wait: 0s }";
    let config = format!(
        "telemetry: {{ otlp: \"{}\" }}\npolicies: {{ export: {bucket}, site: {bucket} }}\n\
         routes: [{{ policy: site, key: global }}]\nlisten: {{ proxy: '127.0.0.1:{proxy}' }}\n\
         proxy: {{ upstream: 'http://127.0.0.1:{upstream}' }}\n",
        collector.url
    );
    let config = folder.write("tidegate.yaml", config);
    let mut command = tidegate(&["serve", "-c", &config, "--listen", "127.0.0.1:0"]);
    let command = command.env("OTEL_BSP_SCHEDULE_DELAY", "50");
    let server = Server::launched(command.stderr(Stdio::null()));
    wait_for_port(proxy);
    let caller = traceparent("01");
    let next = |policy: &str| {
        let span =
            collector.until("a span", |message| spans(message).first().map(|it| (*it).clone()));
        assert_eq!(attribute(&span, "tidegate.policy").as_deref(), Some(policy));
        assert_eq!(
            (&span["traceId"], &span["parentSpanId"]),
            (&base64(TRACE).into(), &base64(CALLER).into())
        );
        attribute(&span, "tidegate.allowed").unwrap()
    };
    for accepted in [true, false] {
        let body = br#"{"policy":"export","key":"ann"}"#;
        let reply = server.send("POST", "/v1/reserve", &[("traceparent", &caller)], body);
        assert_eq!(reply.json()["accepted"], accepted);
        assert_eq!(next("export"), accepted.to_string());
    }
    for status in ["200", "429"] {
        let (header, url) =
            (format!("traceparent: {caller}"), format!("http://127.0.0.1:{proxy}/"));
        let answered = curl(&["-o", "/dev/null", "-w", "%{http_code}", "-H", &header, &url]);
        assert_eq!(answered, status);
        assert_eq!(next("site"), (status == "200").to_string());
    }
}

/// The value of a metric in a message, by its name and a label.
fn figure(message: &Value, name: &str, (label, value): (&str, &str)) -> Option<f64> {
    let metrics = all(message, &["resourceMetrics", "scopeMetrics", "metrics"]);
    let metric = metrics.into_iter().find(|metric| metric["name"] == name)?;
    let points = ["sum", "gauge"].iter().find_map(|kind| metric[kind]["dataPoints"].as_array())?;
    let point = points
        .iter()
        .find(|point| label.is_empty() || attribute(point, label).as_deref() == Some(value));
    point?["asDouble"].as_f64()
}

#[test]
fn metrics_are_exported_under_the_names_of_the_page() {
    let (folder, collector) = (Folder::new(), Collector::start());
    let server = serve(&folder, &collector.url);
    for _ in 0..3 {
        assert_eq!(check(&server, None), 200);
    }
    for (name, label, expected) in [
        ("rate_limit_requests_total", ("status", "denied"), 2.0),
        ("tidegate_check_duration_seconds_count", ("door", "http"), 3.0),
        ("tidegate_check_duration_seconds_bucket", ("le", "+Inf"), 3.0),
        ("tidegate_keys", ("", ""), 1.0),
    ] {
        let of = |message: &Value| figure(message, name, label);
        collector.until(name, |message| of(message).filter(|value| (value - expected).abs() < 0.5));
    }
    let named = collector.until("a resource", |message| {
        let resource = &message["resourceMetrics"][0]["resource"];
        attribute(resource, "service.name")
    });
    assert_eq!(named, "tidegate");
}

#[test]
fn a_shutdown_sends_pending_spans() {
    let (folder, collector) = (Folder::new(), Collector::start());
    let config =
        format!("telemetry: {{ otlp: \"{}\" }}\npolicies: {{ api: 5/h }}\n", collector.url);
    // The periodic export would take at least five seconds.
    let mut server = Server::with_config(&folder, &config);
    assert_eq!(check(&server, Some(&traceparent("01"))), 200);
    assert_eq!(server.stop("INT").code(), Some(0));
    collector.until("a span", |message| spans(message).first().map(|_| ()));
    let allowed = ("status", "allowed");
    let sent = |message: &Value| figure(message, "rate_limit_requests_total", allowed);
    collector.until("a figure", |message| sent(message).filter(|value| *value > 0.5));
}

#[test]
fn a_missing_or_hanging_collector_delays_no_decision_and_no_shutdown() {
    let folder = Folder::new();
    let hangs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for port in [free_port(), hangs.local_addr().unwrap().port()] {
        let mut server = serve(&folder, &format!("http://127.0.0.1:{port}"));
        for _ in 0..3000 {
            assert_eq!(check(&server, Some(&traceparent("01"))), 200);
        }
        assert_eq!(server.stop("TERM").code(), Some(0));
    }
}
