//! Fair shares of one limit: while more is asked for than it admits, each tenant gets its weighted max–min share.
//!
//! [`Tenants`] counts what each tenant has asked for within the last second. [`Level::find`] pours the limit over these
//! demands like water: tenants that ask for less than their share get what they ask for, and the others divide the rest
//! by their weights. What one tenant does not use is so lent to the others. While nobody has to give way there is no
//! level, and every tenant may use the whole limit.

mod tenants;

use std::cmp::Ordering;

pub use self::tenants::Tenants;

/// What a tenant asks for, and what it counts.
///
/// ```
/// use tidegate_core::share::{Demand, Level};
///
/// let demands = [Demand { units: 70, weight: 1 }, Demand { units: 70, weight: 1 }];
/// assert!(Level::find(demands, 100).is_some_and(|level| level.share(1) == 50));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Demand {
    /// Units in the time in which the limit admits its capacity.
    pub units: u64,
    /// A tenant of weight 2 gets twice what one of weight 1 gets. At least 1.
    pub weight: u32,
}

/// What each unit of weight gets while tenants contend: an exact fraction, the same on every node.
///
/// ```
/// use tidegate_core::share::{Demand, Level};
///
/// let demand = |units, weight| Demand { units, weight };
/// // A quiet tenant, and two that ask for more than there is.
/// let demands = [demand(10, 1), demand(900, 4), demand(900, 1)];
/// let level = Level::find(demands, 100).ok_or("not contended")?;
/// assert_eq!((level.share(1), level.share(4)), (18, 72)); // of the 90 that the quiet one leaves
///
/// // All get what they ask for: nobody has a level to keep to.
/// assert_eq!(Level::find([demand(10, 1), demand(90, 1)], 100), None);
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// What is left for the tenants that ask for more than their share.
    units: u64,
    /// Their weights. At least 1.
    weights: u64,
}

impl Level {
    /// The level λ at which `Σ min(demand, λ · weight)` is the capacity; `None` if all demands fit into it. O(n log n).
    ///
    /// Nobody can use more than the capacity, so that more than that is no demand: one tenant alone is never contended.
    pub fn find(demands: impl IntoIterator<Item = Demand>, capacity: u64) -> Option<Self> {
        let bounded =
            |it: Demand| Demand { units: it.units.min(capacity), weight: it.weight.max(1) };
        let mut demands: Vec<Demand> = demands.into_iter().map(bounded).collect();
        let asked: u128 = demands.iter().map(|it| u128::from(it.units)).sum();
        if asked <= u128::from(capacity) {
            return None;
        }
        demands.sort_unstable_by(by_units_per_weight);
        let weights = demands.iter().map(|it| u64::from(it.weight)).sum();
        let mut level = Self { units: capacity, weights };
        for demand in demands {
            if !level.satisfies(demand) {
                return Some(level);
            }
            level.units -= demand.units;
            level.weights -= u64::from(demand.weight);
        }
        None // they would all fit, which was found above
    }

    /// What a tenant of this weight gets, rounded up: at least 1, so that nobody is shut out. The limit itself admits no
    /// more than it does alone.
    ///
    /// ```
    /// # use tidegate_core::share::{Demand, Level};
    /// let three = [Demand { units: 9, weight: 1 }; 3];
    /// assert_eq!(Level::find(three, 10).map(|level| level.share(1)), Some(4));
    /// ```
    pub fn share(&self, weight: u32) -> u64 {
        let share = (u128::from(self.units) * u128::from(weight)).div_ceil(self.weights.into());
        u64::try_from(share).unwrap_or(u64::MAX).max(1)
    }

    /// The fraction: units, and the weights that divide them. For [`Level::from_fraction`] on another node.
    ///
    /// ```
    /// # use tidegate_core::share::{Demand, Level};
    /// let level = Level::find([Demand { units: 90, weight: 3 }; 2], 100).ok_or("not contended")?;
    /// assert_eq!(level.fraction(), (100, 6));
    /// assert_eq!(Level::from_fraction(100, 6), Some(level));
    /// assert_eq!(Level::from_fraction(100, 0), None); // divided by nobody
    /// # Ok::<(), &str>(())
    /// ```
    pub const fn fraction(&self) -> (u64, u64) {
        (self.units, self.weights)
    }

    /// The level of a fraction; `None` if nobody divides it.
    pub const fn from_fraction(units: u64, weights: u64) -> Option<Self> {
        if weights == 0 { None } else { Some(Self { units, weights }) }
    }

    /// Whether a tenant asks for no more than its share.
    fn satisfies(&self, demand: Demand) -> bool {
        let asked = u128::from(demand.units) * u128::from(self.weights);
        asked <= u128::from(self.units) * u128::from(demand.weight)
    }
}

fn by_units_per_weight(one: &Demand, other: &Demand) -> Ordering {
    let product = |units: u64, weight: u32| u128::from(units) * u128::from(weight);
    product(one.units, other.weight).cmp(&product(other.units, one.weight))
}
