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

use self::arrivals::Arrivals;
pub use self::row::{Row, ratio};
pub use self::setting::Setting;
use self::world::{Node, World};

/// One fleet in the three ways, and the checks that chance brings.
pub fn run(setting: &Setting, limit: &Limit) -> Result<[Row; 3], LeaseError> {
    let naive = naive::Naive::new(limit, Terms::from_limits([limit])?.ttl());
    let drawn = || Arrivals::draw(setting, limit);
    let [strict, lease] = strict_and_leased(setting, limit, drawn)?;
    Ok([strict, lease, simulate("naive", setting, (limit, limit), naive, drawn())])
}

/// The same checks for everyone: one call for each, and leases. A check is the µs since the start, and its node.
pub fn given(
    setting: &Setting,
    limit: &Limit,
    checks: &[(u64, usize)],
) -> Result<[Row; 2], LeaseError> {
    strict_and_leased(setting, limit, || Arrivals::given(checks, limit))
}

fn strict_and_leased(
    setting: &Setting,
    limit: &Limit,
    arrivals: impl Fn() -> Arrivals,
) -> Result<[Row; 2], LeaseError> {
    let terms = Terms::from_limits([limit])?;
    let kept = limit.leased(terms.ttl())?;
    Ok([
        simulate("strict", setting, (limit, limit), strict::Strict, arrivals()),
        simulate("lease", setting, (limit, &kept), leased::Leased::new(terms), arrivals()),
    ])
}

fn simulate<N: Node>(
    way: &'static str,
    setting: &Setting,
    limits: (&Limit, &Limit),
    node: N,
    arrivals: Arrivals,
) -> Row {
    let (meters, tally) = World::new(setting, limits, node, arrivals).run();
    Row::new(way, setting, &meters, &tally)
}
