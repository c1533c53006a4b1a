//! A refused reload is not in force at all, whatever it was refused for.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::processes::{DEADLINE, wait_for, wait_until};
use crate::programs::{App, Program, curl, free_port, wait_for_port};
use crate::support::{Folder, tidegate};
use crate::tls::Authority;

const TOKEN: &str = "s3cret-token-of-this-door";
const RULES: &str =
    "domain: edge\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 2 } }]\n";

/// Everything that a reload can change.
const IN_FORCE: &str = "\
policies:
  search: { limit: 100/s, adaptive: { source: { latency: db } } }
  pages: { key: url, algorithm: sliding-window, limit: 240/min, adaptive: { source: latency } }
  fixed: { limit: 50/s, adaptive: { source: { fixed: 0.5 } } }
  old: 3/day
overrides: [{ policy: old, key: ann, limit: 7/day }]
routes: [{ policy: old, key: query:user }]
headers: { legacy: delta }
";

/// The same with every part changed. Each refusal adds one mistake to it.
const CHANGED: &str = "\
policies:
  search: { limit: 10/s, mode: shadow, adaptive: { source: { latency: other } } }
  pages: { key: url, algorithm: sliding-window, limit: 24/min, adaptive: { source: { latency: site } } }
  fixed: { limit: 50/s, adaptive: { source: { fixed: 1 } } }
  added: { limit: 5/s, adaptive: { source: { latency: new-target } } }
overrides: [{ policy: added, key: ann, block: true }]
routes: [{ match: { path: /never }, policy: added }]
headers: { legacy: off }
dashboard: { keys: shown }
client_ip: { trusted_proxies: [127.0.0.0/8] }
";

/// A server with TLS on a public address, a proxy, and Envoy's rules.
struct Node {
    folder: Folder,
    program: Program,
    http: u16,
    proxy: u16,
    /// The sections that say where it listens, and what for.
    listen: String,
    admin: String,
    upstream: String,
    ca: String,
    asked: AtomicUsize,
}

impl Node {
    fn start(app: &App) -> Self {
        let (folder, authority) = (Folder::new(), Authority::new("authority"));
        let [cert, key] = authority.sign(&folder, "server", "first");
        let (http, proxy, grpc) = (free_port(), free_port(), free_port());
        let listen = format!(
            "listen:\n  http: {{ address: 0.0.0.0:{http}, tls: {{ cert: {cert}, key: {key} }} }}\n  \
             proxy: 127.0.0.1:{proxy}\ndrain: 0s\n"
        );
        let token = folder.write("token", TOKEN);
        let admin = format!("admin: {{ token_file: {token} }}\n");
        let upstream = format!("proxy: {{ upstream: http://127.0.0.1:{} }}\n", app.port);
        folder.write("rules/a.yaml", RULES);
        let file = folder.write("t.yaml", format!("{IN_FORCE}{listen}{admin}{upstream}"));
        let (grpc, rules) = (format!("127.0.0.1:{grpc}"), folder.path("rules"));
        let args = ["serve", "-c", &file, "--grpc", &grpc, "--envoy-config", &rules];
        let program = Program::start(&mut tidegate(&args), &folder);
        wait_for_port(http);
        wait_for_port(proxy);
        let ca = folder.write("ca.pem", authority.0.pem());
        let asked = AtomicUsize::new(0);
        Self { folder, program, http, proxy, listen, admin, upstream, ca, asked }
    }

    /// Replaces a file at once: a half-written one would be another mistake.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let next = self.folder.write("next", content);
        fs::rename(next, self.folder.path(name)).unwrap();
    }

    /// Writes a file with every change, and with some text replaced.
    fn write_changed(&self, from: &str, to: &str) {
        let file = format!("{CHANGED}{}{}{}", self.listen, self.admin, self.upstream);
        assert!(file.contains(from), "{from}");
        self.write("t.yaml", file.replacen(from, to, 1));
    }

    fn curl(&self, args: &[&str], path: &str) -> String {
        let (url, token) = (
            format!("https://localhost:{}{path}", self.http),
            format!("Authorization: Bearer {TOKEN}"),
        );
        curl(&[&["--cacert", &self.ca, "-H", &token], args, &[&url]].concat())
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.curl(&[], path)).unwrap()
    }

    fn refusals(&self) -> u64 {
        let page = self.curl(&[], "/metrics");
        let series = r#"tidegate_config_reload_total{result="error"} "#;
        page.lines().find_map(|line| line.strip_prefix(series)).unwrap().parse().unwrap()
    }

    /// What the configuration in force looks like from outside.
    fn seen(&self) -> Vec<(&'static str, String)> {
        let user = format!("?user={}", self.asked.fetch_add(1, Ordering::Relaxed));
        let proxied = format!("http://127.0.0.1:{}/{user}", self.proxy);
        let certificate = ["-o", "/dev/null", "-w", "%{certs}"];
        let page = self.curl(&[], "/metrics");
        let samples = || page.lines().filter(|line| !line.starts_with('#'));
        // Those of the last minute's requests come and go.
        let is_lasting =
            |line: &&str| !["downstream_", "request_"].iter().any(|it| line.starts_with(it));
        let series = samples().filter(is_lasting).map(|line| line.rsplit_once(' ').unwrap().0);
        let is_limit = |line: &&str| {
            ["rate_limit_effective_limit", "rate_limit_pressure_factor"]
                .iter()
                .any(|name| line.starts_with(name))
        };
        let mut status = self.json("/v1/status");
        status["uptime_ms"] = Value::Null;
        let targets = self.json("/v1/pressure");
        let targets = targets["targets"].as_object().unwrap().keys();
        let targets: Vec<_> = targets.filter(|it| !it.starts_with("http://")).cloned().collect();
        vec![
            ("series", series.collect::<Vec<_>>().join("\n")),
            ("limits", samples().filter(is_limit).collect::<Vec<_>>().join("\n")),
            ("policies", self.json("/v1/policies").to_string()),
            ("status", status.to_string()),
            ("targets", targets.join(" ")),
            ("overrides", self.json("/v1/overrides").to_string()),
            ("forward-auth", header_names(&self.curl(&["-i"], &format!("/v1/auth{user}-auth")))),
            ("proxy", header_names(&curl(&["-i", &proxied]))),
            ("certificate", self.curl(&certificate, "/healthz")),
        ]
    }
}

/// The status and the names of the headers, in order.
fn header_names(response: &str) -> String {
    let head = response.split("\r\n\r\n").next().unwrap();
    head.lines().map(|line| line.split(':').next().unwrap()).collect::<Vec<_>>().join(" ")
}

/// A mistake in a part of the file: what is replaced, by what, and a part of the error. Every file has all other changes.
const MISTAKES: [(&str, &str, &str); 28] = [
    ("policies:", "policies: {", "t.yaml:"),
    ("policies:", "polices: {}\npolicies:", "unknown key `polices`"),
    ("policies:", "mode: x\npolicies:", "mode: unknown `x`"),
    ("limit: 5/s", "limit: 5/fortnight", "fortnight"),
    ("limit: 5/s", "limit: 0/s", "policies.added"),
    ("limit: 5/s", "limit: '${NOT_SET_ANYWHERE}'", "NOT_SET_ANYWHERE"),
    ("limit: 5/s,", "algorithm: concurrency, limit: 5,", "policies.added"),
    (
        "  added:",
        "  two: { all: [{ name: a, limit: 1/s }, { name: a, limit: 1/s }] }\n  added:",
        "policies.two",
    ),
    ("  added:", "  edge/user: 1/s\n  added:", "is also the name of a rule"),
    ("[{ match", "[{ policy: none }, { match", "no policy is called `none`"),
    ("{ path: /never }", "{ path: never }", "is not a path"),
    ("/never }", "/never }, key: 'path|path|path|path|path|path|path|path|path'", "at most 8"),
    ("{ policy: added, key", "{ policy: none, key", "no policy is called `none`"),
    ("legacy: off", "legacy: sometimes", "headers.legacy"),
    ("[127.0.0.0/8]", "[127.0.0.0/33]", "client_ip"),
    ("policies:", "store: carrier-pigeon://home\npolicies:", "carrier-pigeon"),
    ("policies:", "store: { url_file: /nowhere/url }\npolicies:", "/nowhere/url"),
    ("policies:", "telemetry: { otlp: nowhere }\npolicies:", "telemetry.otlp"),
    ("admin: { token_file: ", "admin: { token_file: /nowhere", "/nowhere"),
    (
        "  added:",
        "  db: { limit: 1/s, adaptive: { source: { probe: 'https://db/', token_file: /nowhere/probe } } }\n  added:",
        "/nowhere/probe",
    ),
    (
        "  added:",
        "  db: { limit: 1/s, adaptive: { source: { probe: 'https://db/', ca_file: /nowhere/db.pem } } }\n  added:",
        "ca_file: /nowhere/db.pem",
    ),
    ("admin: {", "# admin: {", "will not listen on"),
    ("upstream: http://", "upstream: ftp://", "proxy.upstream"),
    (
        "upstream: http://",
        "ca_file: /nowhere/ca.pem, upstream: https://",
        "proxy.ca_file: /nowhere/ca.pem",
    ),
    ("proxy: { upstream", "# proxy: { upstream", "proxy"),
    ("server.pem", "nowhere.pem", "nowhere.pem"),
    ("  proxy: 127", "  resp: 0.0.0.0:1\n  proxy: 127", "will not listen on 0.0.0.0:1"),
    (
        "  proxy: 127",
        "  resp: { address: '127.0.0.1:1', password_file: /nowhere/password }\n  proxy: 127",
        "/nowhere/password",
    ),
];

#[test]
fn a_refused_reload_changes_nothing_whatever_it_is_refused_for() {
    let app = App::start();
    let node = Node::start(&app);
    let set = r#"{"limit":"9/day"}"#;
    node.curl(&["-X", "PUT", "-d", set], "/v1/overrides/old/bob");
    let in_force = r#"rate_limit_effective_limit{policy="fixed"} 25"#;
    wait_until("the limits follow", DEADLINE, || node.curl(&[], "/metrics").contains(in_force));
    let before = node.seen();
    let refused = |what: &str, error: &str, write: &dyn Fn()| {
        let (so_far, log) = (node.refusals(), node.folder.path("program.log"));
        let logged = fs::read_to_string(&log).unwrap().len();
        write();
        node.program.signal("HUP");
        wait_until("the file is refused", DEADLINE, || node.refusals() > so_far);
        wait_until(&format!("{error} is logged for {what}"), DEADLINE, || {
            fs::read_to_string(&log).unwrap()[logged..].contains(error)
        });
        for (seen, before) in node.seen().iter().zip(&before) {
            assert_eq!(seen, before, "{what}");
        }
    };
    for (from, to, error) in MISTAKES {
        refused(to, error, &|| node.write_changed(from, to));
    }
    refused("a file that is no text", "is not UTF-8", &|| node.write("t.yaml", [0xff]));
    let long = "#".repeat((1 << 20) + 1);
    refused("a file that is too long", "t.yaml", &|| node.write("t.yaml", &long));
    refused("a missing file", "No such file", &|| {
        fs::remove_file(node.folder.path("t.yaml")).unwrap();
    });
    refused("a short token", "shorter than 16 bytes", &|| {
        node.write("token", "short");
        node.write_changed("policies:", "policies:");
    });
    refused("bad rules of Envoy", "rules/a.yaml", &|| {
        node.write("rules/a.yaml", "domain: edge\ndescriptors: 7\n");
        node.write("token", TOKEN);
    });
    refused("a domain of Envoy's rules twice", "edge", &|| {
        node.write("rules/b.yaml", RULES);
        node.write("rules/a.yaml", RULES);
    });
    // The control: without its mistake, the same file changes all of this.
    node.write("rules/b.yaml", "domain: other\n");
    node.program.signal("HUP");
    let after = wait_for("the file is accepted", DEADLINE, || {
        let is_new =
            node.curl(&[], "/metrics").contains(r#"rate_limit_effective_limit{policy="fixed"} 1"#);
        is_new.then(|| node.seen())
    });
    for ((what, before), (_, after)) in before.iter().zip(&after) {
        assert_eq!(before == after, ["overrides", "certificate"].contains(what), "{what}: {after}");
    }
}
