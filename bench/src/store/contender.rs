//! The measured servers, each in its own process, over one Redis or in memory.

use std::process::Command;

use tidegate_bench::metrics::decisions_by_source;
use tidegate_bench::{Process, free_port, killed_with_parent};

const TIDEGATE: &str = "target/dist/tidegate";
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
    TidegateInMemory,
    LimitadorInMemory,
}

impl Kind {
    pub(crate) const OVER_REDIS: [Self; 3] =
        [Self::Tidegate, Self::Limitador, Self::LimitadorCached];
    pub(crate) const IN_MEMORY: [Self; 2] = [Self::TidegateInMemory, Self::LimitadorInMemory];

    pub(crate) const fn is_tidegate(self) -> bool {
        matches!(self, Self::Tidegate | Self::TidegateInMemory)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tidegate | Self::TidegateInMemory => "tidegate",
            Self::Limitador | Self::LimitadorInMemory => {
                "limitador 0.14 (library) behind hyper/tonic"
            }
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
        let resp = kind.is_tidegate().then(free_port);
        let mut command = match kind {
            Kind::Tidegate => tidegate(&over_redis(redis), http, grpc, resp),
            Kind::TidegateInMemory => tidegate("memory", http, grpc, resp),
            Kind::LimitadorInMemory => limitador("memory", redis, http, grpc),
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

/// The deadline is limitador's, and no breaker opens: nothing may be answered without Redis.
fn over_redis(url: &str) -> String {
    format!("{{ url: \"{url}\", deadline: 350ms, breaker: false }}")
}

/// A check takes a minute from a key's burst, so that keys are kept for a minute, as limitador's are.
fn tidegate(store: &str, http: u16, grpc: u16, resp: Option<u16>) -> Command {
    let config = format!("store: {store}\npolicies: {{ {POLICY}: 1/min burst 1000000 }}\n");
    let path = format!("target/bench-store-{http}.yaml");
    std::fs::write(&path, config).expect("a file in target");
    let mut command = killed_with_parent(TIDEGATE);
    command.args(["serve", "-c", &path]);
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
