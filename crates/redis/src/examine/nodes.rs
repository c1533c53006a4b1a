//! Finds the servers of a store, through its cluster or its sentinels.

mod cluster;
mod sentinel;

use super::checks::not_reached;
use super::connection::{ConnectError, Connection};
use super::facts::Role;
use super::server::RedisServer;
use crate::endpoint::{Endpoint, Topology};
use crate::url::RedisUrl;
use tidegate::driver::{Finding, Severity};

/// The servers, and findings about the cluster or the sentinels.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) servers: Vec<RedisServer>,
    pub(super) findings: Vec<Finding>,
}

impl Nodes {
    fn add(&mut self, endpoint: &Endpoint, url: &RedisUrl, role: Role) {
        match server(endpoint, url, role) {
            Ok(server) => self.servers.push(server),
            Err(finding) => self.findings.push(finding),
        }
    }
}

/// Finds all servers of a store.
pub(super) async fn find(url: &RedisUrl) -> Nodes {
    let mut nodes = Nodes::default();
    match &url.topology {
        Topology::Single(endpoint) => nodes.add(endpoint, url, Role::Single),
        Topology::Cluster(seeds) => cluster::find(seeds, url, &mut nodes).await,
        Topology::Sentinel { sentinels, primary, login } => {
            let to_sentinels = RedisUrl { login: login.clone(), db: 0, ..url.clone() };
            let (servers, found) = sentinel::find(sentinels, primary, &to_sentinels).await;
            nodes.findings = found;
            for (endpoint, role) in servers {
                nodes.add(&endpoint, url, role);
            }
        }
    }
    nodes
}

pub(super) async fn connect(server: &RedisServer) -> Result<Connection, Finding> {
    let failed = |error| not_reached(&error, &server.cli).at(&server.name);
    Connection::open(server).await.map_err(failed)
}

/// One server that does not answer is no fault while others do.
pub(super) fn as_warning(mut finding: Finding) -> Finding {
    finding.severity = Severity::Warning;
    finding.risk("the others answer, but if one of them fails there is one fewer to take its place")
}

fn server(endpoint: &Endpoint, url: &RedisUrl, role: Role) -> Result<RedisServer, Finding> {
    RedisServer::new(endpoint, url, role)
        .map_err(|why| not_reached(&ConnectError::Url(why), "redis-cli"))
}
