//! A cluster's health, as one of its nodes sees it.

use super::{Check, Facts, Finding};
use crate::examine::facts::Role;

const SLOTS: u64 = 16_384;

pub(super) const CHECKS: &[Check] = &[check];

fn check(facts: &Facts) -> Option<Finding> {
    if !facts.info.is("cluster_enabled", "1") {
        return None;
    }
    if facts.role == Role::Single {
        let finding = Finding::fault("cluster", "it is a node of a cluster")
            .risk(
                "most keys are on other nodes: checks fail with MOVED, and on_store_error decides",
            )
            .remedy("--store redis+cluster://HOST:PORT,…");
        return Some(finding);
    }
    let cluster = &facts.cluster;
    let state = cluster.text("cluster_state")?;
    let of = |name| cluster.number(name).unwrap_or(0);
    let (assigned, failing) = (of("cluster_slots_assigned"), of("cluster_slots_fail"));
    let suspected = of("cluster_slots_pfail");
    let nodes = of("cluster_known_nodes");
    let seen = format!("state {state}, {assigned} of {SLOTS} slots assigned, {nodes} nodes known");
    let remedy = || facts.cli("CLUSTER NODES");
    Some(if state != "ok" {
        Finding::fault("cluster", seen)
            .risk("checks fail with CLUSTERDOWN, and on_store_error decides")
            .remedy(remedy())
    } else if assigned < SLOTS || failing > 0 {
        Finding::fault("cluster", format!("{seen}, {failing} of them with a failed node"))
            .risk("checks of keys in those slots fail, and on_store_error decides")
            .remedy(remedy())
    } else if suspected > 0 {
        Finding::warning(
            "cluster",
            format!("{seen}, {suspected} of them with a node that may have failed"),
        )
        .risk("checks of keys in those slots may fail soon, until a replica is promoted")
        .remedy(remedy())
    } else {
        Finding::ok("cluster", seen)
    })
}
