//! What `proxy.in_flight` of a configuration means for its store and its number of nodes.

use tidegate::driver::Finding;
use tidegate_config::proxy::{InFlightMax, InFlightScope};

const CHECK: &str = "in_flight";

/// `is_local`: the store is in the memory of each process.
pub(super) fn finding(bound: InFlightMax, is_local: bool, nodes: u64) -> Finding {
    let InFlightMax { max, scope } = bound;
    match scope {
        InFlightScope::Node if nodes == 1 => Finding::ok(CHECK, format!("{max} at this node")),
        InFlightScope::Node => {
            let together = max.saturating_mul(nodes);
            let seen = format!("{max} at each of {nodes} nodes, {together} together");
            Finding::note(CHECK, seen)
                .risk("places that a quiet node does not use are lost to the others")
                .remedy("proxy.in_flight.scope: fleet counts over all nodes of a store")
        }
        InFlightScope::Fleet if is_local => {
            Finding::warning(CHECK, format!("{max} over the fleet, in a store of one process"))
                .risk("every node counts by itself, so all nodes together pass on more than max")
                .remedy("set store to one that all nodes share, or proxy.in_flight.scope: node")
        }
        InFlightScope::Fleet if max < nodes => Finding::warning(
            CHECK,
            format!("{max} over the fleet, which has {nodes} nodes"),
        )
        .risk(format!(
            "while the store fails each node has at least one place: up to {nodes} at the upstreams"
        ))
        .remedy("raise proxy.in_flight.max, or run fewer proxies"),
        InFlightScope::Fleet => {
            let share = max / nodes.max(1);
            let seen = format!(
                "{max} over the fleet; while the store fails {share} at each of {nodes} (--nodes, store.nodes)"
            );
            Finding::ok(CHECK, seen)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_judged_by_scope_store_and_nodes() {
        use InFlightScope::{Fleet, Node};
        for (max, scope, is_local, nodes, severity, seen) in [
            (200, Node, false, 1, "ok", "200 at this node"),
            (200, Node, true, 3, "note", "600 together"),
            (u64::MAX, Node, true, 3, "note", "together"),
            (200, Fleet, true, 3, "warning", "in a store of one process"),
            (2, Fleet, false, 3, "warning", "which has 3 nodes"),
            (3, Fleet, false, 3, "ok", "1 at each of 3"),
            (200, Fleet, false, 3, "ok", "66 at each of 3"),
        ] {
            let found = finding(InFlightMax { max, scope }, is_local, nodes);
            assert_eq!(found.severity.as_str(), severity, "{}", found.seen);
            assert!(found.seen.contains(seen), "{}", found.seen);
            assert_eq!(found.remedy.is_some(), severity != "ok", "{}", found.seen);
        }
    }
}
