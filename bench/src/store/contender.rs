//! The measured servers, each in its own process, over one Redis.

use std::process::Command;

use tidegate_bench::metrics::decisions_by_source;
use tidegate_bench::{Process, free_port, killed_with_parent};

const TIDEGATE: &str = "target/dist/tidegate";
const CONFIG: &str = "target/bench-store.yaml";
/// The policy of tidegate.
pub(crate) const POLICY: &str = "api";
/// The domain of gRPC requests: of tidegate's own policies, and a namespace of limitador.
pub(crate) const DOMAIN: &str = "tidegate";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Tidegate,
    /// Redis is asked for each decision.
    Limitador,
    /// Counts in process, and tells Redis once a second.
    LimitadorCached,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Tidegate, Self::Limitador, Self::LimitadorCached];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Limitador => "limitador 0.14 (library) behind hyper/tonic",
            Self::LimitadorCached => "… with its cached storage, which is not exact",
        }
    }
}

pub(crate) struct Contender {
    pub(crate) kind: Kind,
    pub(crate) process: Process,
    pub(crate) http: u16,
    pub(crate) grpc: u16,
    /// limitador has no such door.
    pub(crate) resp: Option<u16>,
}

impl Contender {
    pub(crate) fn start(kind: Kind, redis: &str) -> Self {
        let (http, grpc) = (free_port(), free_port());
        let resp = (kind == Kind::Tidegate).then(free_port);
        let mut command = match kind {
            Kind::Tidegate => tidegate(redis, http, grpc, resp),
            Kind::Limitador => limitador("plain", redis, http, grpc),
            Kind::LimitadorCached => limitador("cached", redis, http, grpc),
        };
        let ports: Vec<u16> = [http, grpc].into_iter().chain(resp).collect();
        let process = Process::start(&mut command, &ports);
        Self { kind, process, http, grpc, resp }
    }

    /// Decisions of tidegate that Redis did not make, because it failed or was too slow.
    pub(crate) fn without_redis(&self) -> u64 {
        let decisions = decisions_by_source(self.http).into_iter();
        decisions.filter(|(source, _)| source != "store").map(|(_, count)| count).sum()
    }
}

/// The deadline is limitador's, and no breaker opens: nothing may be answered without Redis. A check takes a minute from
/// a key's burst, so that keys stay in Redis for a minute, as limitador's do.
fn tidegate(redis: &str, http: u16, grpc: u16, resp: Option<u16>) -> Command {
    let config = format!(
        "store: {{ url: \"{redis}\", deadline: 350ms, breaker: false }}\n\
         policies: {{ {POLICY}: 1/min burst 1000000 }}\n"
    );
    std::fs::write(CONFIG, config).expect("a file in target");
    let mut command = killed_with_parent(TIDEGATE);
    command.args(["serve", "-c", CONFIG]);
    for (flag, port) in [("--listen", Some(http)), ("--grpc", Some(grpc)), ("--resp", resp)] {
        command.args(port.into_iter().flat_map(|port| [flag.into(), format!("127.0.0.1:{port}")]));
    }
    command
}

fn limitador(storage: &str, redis: &str, http: u16, grpc: u16) -> Command {
    let me = std::env::current_exe().expect("this program");
    let mut command = killed_with_parent(me.to_str().expect("a path in UTF-8"));
    command.args(["limitador", storage, redis, &http.to_string(), &grpc.to_string()]);
    command
}
