//! The proxies, each in its own process on the first processor, with a limit per client address.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_bench::{Process, free_port, pinned};

const TIDEGATE: &str = "target/dist/tidegate";
const NGINX: &str = "/usr/sbin/nginx";
const HAPROXY: &str = "/usr/sbin/haproxy";
/// Where `./dev clients` and `./dev bench limiters` install them.
const ENVOY: &str = "target/clients/envoy/bin/envoy";
const TRAEFIK: &str = "target/clients/proxies/bin/traefik";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tidegate,
    Nginx,
    Haproxy,
    Envoy,
    Traefik,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Limit {
    /// No run uses it up.
    AdmitsAll,
    /// One request a minute.
    RefusesNearlyAll,
}

impl Limit {
    /// What a client has at once.
    const fn burst(self) -> u32 {
        match self {
            Self::AdmitsAll => 1_000_000_000,
            Self::RefusesNearlyAll => 1,
        }
    }
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Tidegate, Self::Nginx, Self::Haproxy, Self::Envoy, Self::Traefik];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate proxy, `--limit`",
            Self::Nginx => "nginx, `limit_req`",
            Self::Haproxy => "HAProxy, stick table",
            Self::Envoy => "Envoy, local rate limit",
            Self::Traefik => "Traefik, `rateLimit`",
        }
    }
}

pub(crate) struct Contender {
    pub(crate) kind: Kind,
    pub(crate) process: Process,
    pub(crate) port: u16,
    folder: PathBuf,
}

impl Contender {
    pub(crate) fn start(kind: Kind, limit: Limit, site: u16) -> Self {
        let port = free_port();
        let folder = format!("tidegate-bench-{}-{port}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).expect("a folder");
        let files = Files { folder: &folder, port, site, limit };
        let mut command = match kind {
            Kind::Tidegate => tidegate(port, site, limit),
            Kind::Nginx => {
                let config = files.write("nginx.conf", include_str!("config/nginx.conf"));
                with_args(NGINX, &["-p", &files.folder(), "-c", &config])
            }
            Kind::Haproxy => {
                let config = files.write("haproxy.cfg", include_str!("config/haproxy.cfg"));
                with_args(HAPROXY, &["-db", "-f", &config])
            }
            Kind::Envoy => {
                let config = files.write("envoy.yaml", include_str!("config/envoy.yaml"));
                let options = ["--concurrency", "1", "--disable-hot-restart", "-l", "error"];
                with_args(ENVOY, &[&["-c", &*config][..], &options].concat())
            }
            Kind::Traefik => {
                files.write("routes.yml", include_str!("config/traefik-routes.yml"));
                let config = files.write("traefik.yml", include_str!("config/traefik.yml"));
                with_args(TRAEFIK, &[&format!("--configFile={config}")])
            }
        };
        let process = Process::start(&mut command, &[port]);
        Self { kind, process, port, folder }
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn with_args(program: &str, args: &[&str]) -> Command {
    let mut command = pinned(program);
    command.args(args);
    command
}

fn tidegate(port: u16, site: u16, limit: Limit) -> Command {
    let limit = match limit {
        Limit::AdmitsAll => format!("{}/min", limit.burst()),
        Limit::RefusesNearlyAll => "1/min".to_owned(),
    };
    let (listen, upstream) = (format!("127.0.0.1:{port}"), format!("http://127.0.0.1:{site}"));
    let args = ["proxy", "--upstream", &upstream, "--listen", &listen, "--limit", &limit];
    with_args(TIDEGATE, &args)
}

/// The configuration files of a proxy, from templates in which words in capitals are replaced.
struct Files<'a> {
    folder: &'a Path,
    port: u16,
    site: u16,
    limit: Limit,
}

impl Files<'_> {
    fn folder(&self) -> String {
        self.folder.display().to_string()
    }

    /// Returns its path.
    fn write(&self, name: &str, template: &str) -> String {
        let burst = self.limit.burst();
        let rate = match self.limit {
            Limit::AdmitsAll => "1000000r/s",
            Limit::RefusesNearlyAll => "1r/m",
        };
        let words = [
            ("FOLDER", self.folder()),
            ("LISTEN", format!("127.0.0.1:{}", self.port)),
            ("PORT", self.port.to_string()),
            ("SITE", format!("127.0.0.1:{}", self.site)),
            ("UPSTREAM", self.site.to_string()),
            ("RATE", rate.to_owned()),
            ("AVERAGE", burst.to_string()),
            ("BURST", burst.to_string()),
        ];
        let text =
            words.iter().fold(template.to_owned(), |text, (word, value)| text.replace(word, value));
        let path = self.folder.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    }
}
