//! The site and the proxies, each in its own process.

use std::path::PathBuf;
use std::process::Command;

use tidegate_bench::{Process, free_port, pinned};

const TIDEGATE: &str = "target/dist/tidegate";
const NGINX: &str = "/usr/sbin/nginx";
/// More requests than any run sends.
const PLENTY: &str = "100000000/s";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Site,
    Nginx,
    /// Without a limit, like nginx.
    Tidegate,
    /// With a limit per client address.
    Limited,
}

pub(crate) struct Contender {
    kind: Kind,
    process: Process,
    port: u16,
    folder: PathBuf,
}

impl Contender {
    pub(crate) fn start(kind: Kind, site: Option<u16>) -> Self {
        let port = free_port();
        let folder =
            std::env::temp_dir().join(format!("tidegate-bench-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut command = match site {
            None => {
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.args(["site", &port.to_string()]);
                command
            }
            Some(site) if kind == Kind::Nginx => nginx(&folder, port, site),
            Some(site) => tidegate(kind, port, site),
        };
        let process = Process::start(&mut command, &[port]);
        Self { kind, process, port, folder }
    }

    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self.kind {
            Kind::Site => "directly",
            Kind::Nginx => "nginx, one worker",
            Kind::Tidegate => "tidegate proxy",
            Kind::Limited => "tidegate proxy, --limit",
        }
    }

    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// The CPU time so far.
    pub(crate) fn cpu_s(&self) -> f64 {
        self.process.cpu_s()
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn tidegate(kind: Kind, port: u16, site: u16) -> Command {
    let mut command = pinned(TIDEGATE);
    command.args(["proxy", "--upstream", &format!("http://127.0.0.1:{site}")]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    if kind == Kind::Limited {
        command.args(["--limit", PLENTY]);
    }
    command
}

/// An ordinary reverse proxy with upstream keep-alive.
fn nginx(folder: &std::path::Path, port: u16, site: u16) -> Command {
    let root = folder.display();
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {root}/{what}; "))
        .concat();
    let config = format!(
        "daemon off; master_process off; worker_processes 1; pid {root}/nginx.pid; error_log stderr crit;\n\
         events {{ worker_connections 4096; }}\n\
         http {{ access_log off; {paths} keepalive_requests 1000000000; tcp_nodelay on;\n\
         upstream site {{ server 127.0.0.1:{site}; keepalive 256; keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://site; proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\"; proxy_set_header Host $host;\n\
         proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme; }} }} }}\n"
    );
    let path = folder.join("nginx.conf");
    std::fs::write(&path, config).expect("a file");
    let mut command = pinned(NGINX);
    command.arg("-p").arg(folder).arg("-c").arg(path);
    command
}
