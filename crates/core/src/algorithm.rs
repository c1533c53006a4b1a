//! One file per algorithm: its arithmetic, how it is written, and all else that depends on it.

pub(crate) mod concurrency;
mod divisor;
pub(crate) mod fixed_window;
pub(crate) mod gcra;
pub(crate) mod leaky_bucket;
mod lease;
mod pace;
pub(crate) mod quota;
pub(crate) mod sliding_log;
pub(crate) mod sliding_window;
mod window;

use std::fmt::Write;
use std::num::NonZeroU32;

pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use gcra::{Gcra, ScaledArrival};
pub use leaky_bucket::LeakyBucket;
pub use lease::Return;
pub(crate) use lease::{MAX_TTL_US, Term};
pub use quota::Quota;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;

use crate::decision::Decision;
use crate::error::LeaseError;
use crate::state::{Change, State};
use crate::time::Timestamp;

/// An algorithm that refuses. `Limit` forwards to it, and documents what each method promises; each algorithm's
/// `Grammar` says how it is written.
pub(crate) trait LimitAlgorithm: Clone + PartialEq {
    /// Whether the limit in force follows the load of what it protects.
    const FOLLOWS_LOAD: bool = true;
    /// Whether a check takes a permit that is given back.
    const GRANTS_PERMITS: bool = false;

    fn units(&self) -> u64;

    fn ceiling(&self) -> u64 {
        self.units()
    }

    /// The decision, and what an admitted check writes.
    fn plan(&self, state: &State, now: Timestamp, cost: u64) -> (Decision, Change);

    /// What a refund writes. The state is not empty.
    fn refund(&self, state: &State, now: Timestamp, amount: u64) -> Change;

    fn state_letter(&self) -> char;
    fn write_script(&self, around: Timestamp, out: &mut String);

    fn has_edges(&self) -> bool {
        false
    }

    fn script_work(&self) -> u64 {
        1
    }

    /// The same limit with fewer units. Its times stay exact.
    fn with_units(&self, units: u64) -> Self;

    /// The limit with `units`, from 1 to all of them, in force, and room for `least` at once where the whole limit has it.
    fn effective(&self, units: u64, least: u64) -> Self {
        if Self::FOLLOWS_LOAD {
            self.with_units(units.max(least.min(self.units())))
        } else {
            self.clone()
        }
    }

    fn share(&self, nodes: NonZeroU32, least: u64) -> Self {
        self.with_units(share_of(self.units(), nodes, least))
    }

    fn remembers(&self, before: &Self) -> bool {
        self.effective(before.units(), 1) == *before
    }

    /// How long a lease lives, before the bound that all have.
    fn lease_ttl_us(&self) -> Result<u64, LeaseError>;

    fn leased(&self, _ttl_us: u64) -> Result<Self, LeaseError> {
        Ok(self.clone())
    }

    /// The age at which a unit that comes back is worth nothing any more.
    fn unit_us(&self) -> u64 {
        u64::MAX
    }

    /// When a lease that is granted now ends at the latest.
    fn term(&self, _state: &State, _now: Timestamp) -> Term {
        Term::OPEN
    }

    /// What units that come back write. The state is not empty.
    fn give_back(&self, state: &State, now: Timestamp, back: Return) -> Change;
}

/// One node's share of `units`, and at least one.
fn share_of(units: u64, nodes: NonZeroU32, least: u64) -> u64 {
    (units / u64::from(nodes.get())).max(least.min(units)).max(1)
}

/// Appends a name and its numbers, as a store's script reads them.
fn write_numbers(out: &mut String, name: &str, numbers: &[u64]) {
    out.push_str(name);
    for number in numbers {
        // To a string nothing can fail.
        let _ = write!(out, ",{number}");
    }
}
