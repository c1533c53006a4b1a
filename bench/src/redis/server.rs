//! A Redis server that runs as long as the benchmark.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("its address").port();
        drop(free);
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no", "--dir", "/tmp"])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < Duration::from_secs(20), "redis-server does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(args)
            .output()
            .expect("redis-cli is installed");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// A number in `INFO`.
    pub(crate) fn info(&self, field: &str) -> f64 {
        let info = self.cli(&["INFO", "all"]);
        let value =
            info.lines().find_map(|line| line.trim().strip_prefix(field)?.strip_prefix(':'));
        value.and_then(|value| value.parse().ok()).unwrap_or(0.0)
    }

    /// The CPU time so far, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        self.info("used_cpu_sys") + self.info("used_cpu_user")
    }

    /// The number of script calls and their total time in µs, since the statistics were reset.
    pub(crate) fn scripts(&self) -> (f64, f64) {
        let stats = self.cli(&["INFO", "commandstats"]);
        let field = |line: &str, name: &str| {
            let value = line.split([':', ',']).find_map(|part| part.strip_prefix(name));
            value.and_then(|value| value.trim().parse::<f64>().ok()).unwrap_or(0.0)
        };
        let scripts = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
        scripts.fold((0.0, 0.0), |(calls, us), line| {
            (calls + field(line, "calls="), us + field(line, "usec="))
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
