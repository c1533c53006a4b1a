//! The proxies of `deploy/`, each with its example in front of a real app: requests over the limit are refused, and
//! others pass unchanged.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::processes::{DEADLINE, wait_until};
use crate::programs::{App, Program, curl, free_port, of_venv, root, wait_for_port};
use crate::support::{Folder, Server};

const CONFIG: &str = r#"
policies:
  site: { algorithm: sliding-log, limit: 3/h }
routes:
  - { match: { path: "/api/*", method: POST }, policy: site, key: [client_ip, "header:x-user"] }
client_ip: { trusted_proxies: [127.0.0.1] }
"#;

/// An example of `deploy/`, with the ports and the folder of the test.
struct Example<'a> {
    folder: &'a Folder,
    ports: [(&'static str, u16); 3],
}

impl Example<'_> {
    fn write(&self, path: &str) -> String {
        let text = fs::read_to_string(root().join("deploy").join(path)).unwrap();
        let text = self.ports.iter().fold(text, |text, (from, to)| {
            assert!(!from.is_empty());
            text.replace(from, &format!("127.0.0.1:{to}"))
        });
        let folder = self.folder.path("");
        let folder = folder.trim_end_matches('/');
        let (kind, name) = path.split_once('/').unwrap();
        let text = text.replace(&format!("deploy/{kind}"), folder);
        self.folder.write(name, text)
    }
}

/// Starts the app, tidegate and a proxy in front of both, then sends requests as a client.
fn check(start: impl FnOnce(&Example<'_>) -> Command) {
    let (folder, app, port) = (Folder::new(), App::start(), free_port());
    let server = Server::with_config(&folder, CONFIG);
    let ports = [
        ("127.0.0.1:8080", server.addr.port()),
        ("127.0.0.1:3000", app.port),
        ("127.0.0.1:8000", port),
    ];
    let mut command = start(&Example { folder: &folder, ports });
    let _proxy = Program::start(&mut command, &folder);
    wait_for_port(port);
    let url = |path: &str| format!("http://127.0.0.1:{port}{path}");
    // The proxy listens before its upstreams are ready.
    wait_until("the proxy passes requests on", DEADLINE, || {
        curl(&["-o", "/dev/null", "-w", "%{http_code}", &url("/")]) == "200"
    });
    let ask = |user: &str, more: &[&str]| {
        let user = format!("x-user: {user}");
        let report = "\n%{http_code} %header{retry-after} %header{ratelimit}";
        let target = url("/api//things?a=1&b=%2F");
        let mut args = vec!["-X", "POST", "-d", "a body", "-H", &user, "-w", report];
        args.extend(more);
        args.push(&target);
        let output = curl(&args);
        let (body, report) = output.rsplit_once('\n').unwrap();
        (body.to_owned(), report.to_owned())
    };
    for _ in 0..3 {
        let (body, report) = ask("ann", &[]);
        let received: Value = serde_json::from_str(&body).expect(&report);
        assert_eq!(received["body"], "a body", "{report}");
        assert_eq!(received["method"], "POST");
        assert!(received["uri"].as_str().unwrap().ends_with("things?a=1&b=%2F"), "{received}");
        assert!(report.starts_with("200 "), "{report}");
    }
    // No header lets a client change its identity or its route.
    for more in [
        &[][..],
        &["-H", "X-Forwarded-For: 203.0.113.9"],
        &["-H", "Forwarded: for=203.0.113.9"],
        &["-H", "X-Forwarded-Uri: /free"],
        &["-H", "X-Forwarded-Method: GET"],
        &["-H", "X-Original-Uri: /free"],
        &["-H", "X-Original-Method: GET"],
        &["-H", "X-Forwarded-For: 203.0.113.9", "-H", "Connection: close, X-Forwarded-For"],
    ] {
        let (_, report) = ask("ann", more);
        let words: Vec<_> = report.split(' ').collect();
        assert_eq!(words[0], "429", "{more:?}: {report}");
        assert!(words[1].parse::<u64>().is_ok_and(|seconds| seconds >= 1), "{report}");
    }
    assert!(ask("ben", &[]).1.starts_with("200 "), "another user has a separate limit");
    let status = |args: &[&str]| {
        let always = ["-o", "/dev/null", "-w", "%{http_code}"];
        curl(&[&always[..], args].concat())
    };
    assert_eq!(status(&["-H", "x-user: ann", &url("/api/things")]), "200", "a GET has no route");
    assert_eq!(status(&["-H", "x-user: ann", "-d", "x", &url("/other")]), "200");
}

#[test]
fn nginx_asks_before_each_request() {
    check(|example| {
        let site = example.write("nginx/tidegate.conf");
        let folder = &example.folder.path("");
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|what| format!("{what}_temp_path {folder}{what}; "))
            .concat();
        let main = format!(
            "daemon off; master_process off; pid {folder}nginx.pid; error_log stderr notice;\nevents {{}}\n\
             http {{ access_log off; {temporary} include {site}; }}\n"
        );
        let main = example.folder.write("nginx.conf", &main);
        let mut command = Command::new("/usr/sbin/nginx");
        command.args(["-p", folder, "-c", &main]);
        command
    });
}

#[test]
fn caddy_asks_before_each_request() {
    check(|example| {
        let config = example.write("caddy/Caddyfile");
        let mut command = Command::new(of_venv("caddy"));
        command.args(["run", "--adapter", "caddyfile", "--config", &config]);
        command.env("HOME", example.folder.path(""));
        command
    });
}

#[test]
fn haproxy_asks_before_each_request() {
    check(|example| {
        example.write("haproxy/tidegate.lua");
        let config = example.write("haproxy/haproxy.cfg");
        let mut command = Command::new("/usr/sbin/haproxy");
        command.args(["-db", "-f", &config]);
        command
    });
}

#[test]
fn traefik_asks_before_each_request() {
    check(|example| {
        example.write("traefik/dynamic.yml");
        let config = example.write("traefik/traefik.yml");
        let mut command = Command::new(of_venv("traefik"));
        command.arg(format!("--configFile={config}"));
        command
    });
}
