//! Why an item has no majority, in words.

use std::sync::Arc;

use tidegate::{StoreError, StoreErrorKind};
use tidegate_core::text::rfc3339;

use crate::node::Node;
use crate::rounds::majority;
use crate::servers::{PrepareRound, RoundItem, Seen};
use crate::standing::Standing;

/// Why a round has no majority for an item, and whether another ballot can help: when another writer was ahead, or a set is
/// being formed.
pub(crate) fn absence(
    nodes: &[Arc<Node>],
    round: &PrepareRound,
    place: usize,
    item: &RoundItem,
) -> (StoreError, bool) {
    let total = nodes.len();
    if round.foreign[place] > 0 && round.foreign[place] + majority(total) > total {
        let why = "the key holds what tidegate did not write";
        return (StoreError::new(StoreErrorKind::WrongType, why), false);
    }
    let (mut reasons, mut kind, mut lost, mut unmarked) = (Vec::new(), None, 0, 0);
    for (node, seen) in nodes.iter().zip(&round.seen) {
        let endpoint = &node.endpoint;
        match seen {
            Seen::Silent => reasons.push(format!("{endpoint} has not answered")),
            Seen::Failed(error) => {
                kind = kind.or(Some(error.kind()));
                reasons.push(error.to_string());
            }
            Seen::Answered { standing: Standing::Unmarked(_), .. } => {
                unmarked += 1;
                reasons.push(format!("{endpoint} is new: the set is not complete yet"));
            }
            Seen::Answered { now, standing } if !standing.counts(*now, item.life_max) => {
                lost += 1;
                let until = standing.counts_from(item.life_max).map(rfc3339).unwrap_or_default();
                let why = "has lost its data, and counts for this limit again from";
                reasons.push(format!("{endpoint} {why} {until}"));
            }
            Seen::Answered { .. } => {}
        }
    }
    let is_passing = unmarked > 0 || round.promises[place].is_refused;
    if reasons.is_empty() {
        let why = "other nodes were ahead at every attempt";
        return (StoreError::new(StoreErrorKind::NotSent, why), is_passing);
    }
    let kind = match kind {
        _ if lost + unmarked > 0 => StoreErrorKind::Recovering,
        Some(StoreErrorKind::Timeout | StoreErrorKind::Disconnected) | None => {
            StoreErrorKind::Unreachable
        }
        Some(kind) => kind,
    };
    let why = format!("no majority of {total} servers: {}", reasons.join("; "));
    (StoreError::new(kind, why), is_passing)
}
