//! Which servers a store is made of: the cluster or the sentinels are asked.

mod cluster;
mod sentinel;

use super::checks::not_reached;
use super::connect::{Look, Refusal};
use super::facts::Part;
use super::finding::{Finding, Severity};
use super::place::{Entry, Place};
use tidegate_redis::{Endpoint, RedisUrl, Topology};

/// The servers, and what was found on the way to them.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) places: Vec<Place>,
    pub(super) findings: Vec<Finding>,
}

impl Nodes {
    fn add(&mut self, endpoint: &Endpoint, entry: Entry<'_>, part: Part) {
        match place(endpoint, entry, part) {
            Ok(place) => self.places.push(place),
            Err(finding) => self.findings.push(finding),
        }
    }
}

/// Finds all servers of a store.
pub(super) async fn find(url: &RedisUrl) -> Nodes {
    let mut nodes = Nodes::default();
    let entry = Entry::to_redis(url);
    match &url.topology {
        Topology::Single(endpoint) => nodes.add(endpoint, entry, Part::Whole),
        Topology::Cluster(seeds) => cluster::find(seeds, entry, &mut nodes).await,
        Topology::Sentinel { sentinels, primary, login } => {
            let to_sentinels = Entry::to_sentinels(url, login.as_ref());
            let (servers, found) = sentinel::find(sentinels, primary, to_sentinels).await;
            nodes.findings = found;
            for (endpoint, part) in servers {
                nodes.add(&endpoint, entry, part);
            }
        }
    }
    nodes
}

/// Connects, or says why not.
pub(super) async fn reach(place: &Place) -> Result<Look, Finding> {
    let refused = |refusal: Refusal| not_reached(&refusal, &place.cli).at(&place.name);
    Look::at(place).await.map_err(refused)
}

/// While others answer, one that does not is no fault of the whole.
pub(super) fn softened(mut finding: Finding) -> Finding {
    finding.severity = Severity::Warning;
    finding.risk("the others answer, but if one of them fails there is one fewer to take its place")
}

fn place(endpoint: &Endpoint, entry: Entry<'_>, part: Part) -> Result<Place, Finding> {
    Place::new(endpoint, entry, part).map_err(|why| not_reached(&Refusal::Url(why), "redis-cli"))
}
