//! What can be wrong with the servers of a Redis store: `tidegate doctor`.
//!
//! - `nodes` finds the servers of a URL, each a `server` with a `connection`.
//! - `collect`, with `permissions` and `scan`, reads the `facts` of a server.
//! - `checks` are pure functions from facts to findings, tested as rows of data.

mod checks;
mod collect;
mod connection;
mod facts;
mod nodes;
mod permissions;
mod scan;
mod server;

use std::hash::{BuildHasher, RandomState};

use tidegate::driver::{Finding, redacted};
use tidegate_core::text::printable;

use self::connection::ConnectError;
use self::facts::Role;
use self::server::RedisServer;
use crate::access::Access;
use crate::url::RedisUrl;

/// What tidegate needs from the store.
struct Requirements {
    key_prefix: String,
    nodes: u64,
    /// Of this run, so that two runs do not interfere.
    id: String,
}

impl Requirements {
    /// The name of a key that only this run uses.
    fn key(&self, what: &str) -> String {
        format!("{}:{{doctor-{}}}:{what}", self.key_prefix, self.id)
    }
}

/// Connects to every server, and looks. A URL that makes no sense is a finding too.
pub(crate) async fn examine(url: String, key_prefix: String, nodes: u64) -> Vec<Finding> {
    let parsed = RedisUrl::parse(&url).and_then(|parsed| {
        Access::new(parsed.login.clone(), parsed.db, parsed.tls.as_ref())?;
        Ok(parsed)
    });
    let parsed = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let why = ConnectError::Url(format!("store {}: {error}", redacted(&url)));
            return vec![checks::not_reached(&why, "redis-cli")];
        }
    };
    let id = format!("{:08x}", RandomState::new().hash_one(()) >> 32);
    let requirements = Requirements { key_prefix, nodes, id };
    let nodes::Nodes { servers, mut findings } = nodes::find(&parsed).await;
    for server in &servers {
        findings.extend(examine_node(server, &requirements).await);
    }
    findings
}

/// The findings of one server.
async fn examine_node(server: &RedisServer, requirements: &Requirements) -> Vec<Finding> {
    let mut connection = match nodes::connect(server).await {
        Ok(connection) => connection,
        Err(finding) if server.role == Role::Replica => return vec![nodes::as_warning(finding)],
        Err(finding) => return vec![finding],
    };
    let facts = collect::collect(&mut connection, server, requirements).await;
    let mut findings = vec![Finding::ok("reach", "it answers")];
    if let Some(why) = connection.lost {
        findings = vec![
            Finding::fault("reach", format!("the connection was lost: {}", printable(&why)))
                .risk("what comes after it was not looked at")
                .remedy(format!("{} PING", server.cli)),
        ];
    }
    findings.extend(checks::all(&facts));
    findings.into_iter().map(|finding| finding.at(&server.name)).collect()
}
