//! Many nodes, one store, and a network between them: one call per check, leases, and a naive cache.

mod arrivals;
mod leased;
mod meter;
mod naive;
mod row;
mod setting;
mod strict;
mod time;
mod world;

use tidegate_core::{LeaseError, Limit, Terms};

pub(crate) use self::row::{Row, ratio};
pub(crate) use self::setting::Setting;
use self::world::{Node, World};

/// One fleet in the three ways.
pub(crate) fn run(setting: &Setting, limit: &Limit) -> Result<[Row; 3], LeaseError> {
    let terms = Terms::of([limit])?;
    let kept = limit.leased(terms.ttl())?;
    let lessee = leased::Leased::new(terms);
    let naive = naive::Naive::new(limit, terms.ttl());
    Ok([
        simulate("strict", setting, limit, limit, strict::Strict),
        simulate("lease", setting, limit, &kept, lessee),
        simulate("naive", setting, limit, limit, naive),
    ])
}

fn simulate<N: Node>(
    way: &'static str,
    setting: &Setting,
    plain: &Limit,
    kept: &Limit,
    node: N,
) -> Row {
    let (meters, tally) = World::new(setting, plain, kept, node).run();
    Row::new(way, setting, &meters, &tally)
}
