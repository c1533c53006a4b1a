//! The real Prometheus scrapes `/metrics`.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::processes::{DEADLINE, wait_for};
use crate::programs::{Program, free_port};
use crate::support::{Folder, Server};

/// `./dev test` installs it.
const MISSING: &str = "prometheus and promtool are needed: apt-get install prometheus";

#[test]
fn promtool_accepts_the_metrics_page() {
    let server = Server::start();
    server.post("/v1/check", r#"{"policy":"api","key":"ann"}"#);
    server.post("/v1/check", r#"{"policy":"no \"such\" policy","key":"ann"}"#);
    let page = server.get("/metrics").body;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect(MISSING);
    promtool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success() && text.concat().trim().is_empty(), "{text:?}");
}

/// A Prometheus that scrapes servers every second, stopped when dropped.
pub(crate) struct Prometheus {
    _program: Program,
    _folder: Folder,
    port: u16,
}

impl Prometheus {
    pub(crate) fn start(servers: &[SocketAddr]) -> Self {
        let (port, folder) = (free_port(), Folder::new());
        let targets: Vec<_> = servers.iter().map(|server| format!("'{server}'")).collect();
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s }}\n\
             scrape_configs:\n  - job_name: tidegate\n    static_configs: [{{ targets: [{}] }}]\n",
            targets.join(", ")
        );
        let config = folder.write("prometheus.yml", config);
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={config}"))
            .arg(format!("--storage.tsdb.path={}", folder.path("data")))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        Self { _program: Program::start(&mut command, &folder), _folder: folder, port }
    }

    /// The value of a query, or `None` if it has none yet.
    pub(crate) fn value(&self, query: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:{}", self.port);
        let output = Command::new("promtool").args(["query", "instant", &url, query]).output();
        let text = String::from_utf8(output.expect(MISSING).stdout).unwrap();
        let value = text.lines().next()?.rsplit("=> ").next()?.split(' ').next()?;
        Some(value.to_owned()).filter(|value| !value.is_empty())
    }
}

#[test]
fn prometheus_scrapes_and_answers() {
    let server = Server::start();
    for _ in 0..7 {
        server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#);
    }
    let prometheus = Prometheus::start(&[server.addr]);
    let value = |query: &str| wait_for(query, DEADLINE, || prometheus.value(query));
    assert_eq!(value(r#"rate_limit_requests_total{policy="login",status="denied"}"#), "2");
    assert_eq!(value("sum(rate_limit_requests_total)"), "7");
    assert_ne!(value("histogram_quantile(1, tidegate_check_duration_seconds_bucket) < 10"), "");
    assert_eq!(value("up"), "1");
}
