//! The processes: three nodes with every door, an idle sidecar, and a Redis Cluster of six.

use std::collections::BTreeMap;

use tidegate_bench::metrics::decisions_by_source;
use tidegate_bench::{Process, free_port, killed_with_parent};
use tidegate_testkit::processes::RedisCluster;

use crate::traffic;

const TIDEGATE: &str = "target/dist/tidegate";
const CONFIG: &str = "target/bench-soak.yaml";
const NODES: usize = 3;

#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) http: u16,
    pub(crate) resp: u16,
    pub(crate) grpc: u16,
}

/// Everything ends when this is dropped, and when this program is killed.
pub(crate) struct Fleet {
    // Dropped before the cluster, which they would miss.
    pub(crate) nodes: Vec<Process>,
    pub(crate) sidecar: Process,
    pub(crate) ports: Vec<Ports>,
    pub(crate) cluster: RedisCluster,
}

impl Fleet {
    pub(crate) fn start() -> Self {
        let cluster = RedisCluster::start();
        let store = format!("store: {{ url: \"{}\", nodes: {NODES} }}\n", cluster.url());
        std::fs::write(CONFIG, store + &traffic::policies()).expect("a file in target");
        let (mut nodes, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..NODES {
            let open = Ports { http: free_port(), resp: free_port(), grpc: free_port() };
            let doors = [("--listen", open.http), ("--resp", open.resp), ("--grpc", open.grpc)];
            nodes.push(serve(&doors));
            ports.push(open);
        }
        let sidecar = serve(&[("--listen", free_port())]);
        Self { nodes, sidecar, ports, cluster }
    }

    /// Decisions of all nodes so far, by what decided.
    pub(crate) fn decisions(&self) -> BTreeMap<String, u64> {
        let mut decisions = BTreeMap::new();
        for (source, count) in self.ports.iter().flat_map(|ports| decisions_by_source(ports.http)) {
            *decisions.entry(source).or_default() += count;
        }
        decisions
    }
}

fn serve(doors: &[(&str, u16)]) -> Process {
    let binary = std::env::var("TIDEGATE").unwrap_or_else(|_| TIDEGATE.to_owned());
    let mut command = killed_with_parent(&binary);
    command.args(["serve", "-c", CONFIG]);
    for (flag, port) in doors {
        command.args([flag, &*format!("127.0.0.1:{port}")]);
    }
    Process::start(&mut command, &doors.iter().map(|(_, port)| *port).collect::<Vec<_>>())
}
