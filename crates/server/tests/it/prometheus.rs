//! The real Prometheus reads what we write.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use crate::processes::{DEADLINE, wait_for};
use crate::support::Server;

/// `./dev test` installs it.
const MISSING: &str = "prometheus and promtool are needed: apt-get install prometheus";

#[test]
fn promtool_finds_nothing_wrong() {
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
    let said = promtool.wait_with_output().unwrap();
    let text = [said.stdout, said.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(said.status.success() && text.concat().trim().is_empty(), "{text:?}");
}

/// A Prometheus that looks at one server every 100 ms, ended when dropped.
struct Prometheus {
    child: Child,
    dir: std::path::PathBuf,
    port: u16,
}

impl Prometheus {
    fn start(server: &Server) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = std::env::temp_dir().join(format!("tidegate-prometheus-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let config = format!(
            "global: {{ scrape_interval: 100ms, scrape_timeout: 100ms }}\n\
             scrape_configs:\n  - job_name: tidegate\n    static_configs: [{{ targets: ['{}'] }}]\n",
            server.addr
        );
        fs::write(dir.join("prometheus.yml"), config).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}/prometheus.yml", dir.display()))
            .arg(format!("--storage.tsdb.path={}/data", dir.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect(MISSING);
        Self { child, dir, port }
    }

    /// The value of a query, once there is one.
    fn value(&self, query: &str) -> Option<String> {
        let url = format!("http://127.0.0.1:{}", self.port);
        let said = Command::new("promtool").args(["query", "instant", &url, query]).output();
        let text = String::from_utf8(said.expect(MISSING).stdout).unwrap();
        let value = text.lines().next()?.rsplit("=> ").next()?.split(' ').next()?;
        Some(value.to_owned()).filter(|value| !value.is_empty())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn prometheus_scrapes_and_answers() {
    let server = Server::start();
    for _ in 0..7 {
        server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#);
    }
    let prometheus = Prometheus::start(&server);
    let value = |query: &str| wait_for(query, DEADLINE, || prometheus.value(query));
    assert_eq!(value(r#"rate_limit_requests_total{policy="login",status="denied"}"#), "2");
    assert_eq!(value("sum(rate_limit_requests_total)"), "7");
    assert_ne!(value("histogram_quantile(1, tidegate_check_duration_seconds_bucket) < 10"), "");
    assert_eq!(value("up"), "1");
}
