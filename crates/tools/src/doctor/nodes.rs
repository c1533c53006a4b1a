//! Which servers a store is made of: the cluster or the sentinels are asked.

mod cluster;
mod sentinel;

use super::checks::not_reached;
use super::connect::{Look, Refusal};
use super::facts::Part;
use super::finding::{Finding, Severity};
use super::place::{Place, TlsFiles};
use super::url::Target;

/// The servers, and what was found on the way to them.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) places: Vec<Place>,
    pub(super) findings: Vec<Finding>,
}

impl Nodes {
    fn add(&mut self, url: &str, files: &TlsFiles, part: Part) {
        match place(url, files, part) {
            Ok(place) => self.places.push(place),
            Err(finding) => self.findings.push(finding),
        }
    }
}

/// Finds all servers of a store.
pub(super) async fn find(target: &Target) -> Nodes {
    let mut nodes = Nodes::default();
    match target {
        Target::One { url, files } => nodes.add(url, files, Part::Whole),
        Target::Cluster(seeds) => cluster::find(seeds, &mut nodes).await,
        Target::Sentinel { seeds, primary } => sentinel::find(seeds, primary, &mut nodes).await,
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

fn place(url: &str, files: &TlsFiles, part: Part) -> Result<Place, Finding> {
    Place::new(url, files, part).map_err(|why| not_reached(&Refusal::Url(why), "redis-cli"))
}
