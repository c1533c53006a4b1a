//! throttlecrab and limitador, called as their documentation shows.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::SystemTime;

use limitador::limit::{Limit, Namespace};
use throttlecrab::{PeriodicStore, RateLimiter};
use tidegate_bench::rates::Rate;

/// With the store of its examples. Its check needs `&mut self`: whoever shares it needs a lock.
pub struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    burst: i64,
    units: i64,
    seconds: i64,
}

impl Throttlecrab {
    /// With a burst that no run uses up.
    pub fn new(Rate { units, seconds }: Rate) -> Self {
        Self::with(u32::MAX.into(), units.into(), seconds as i64)
    }

    pub fn per_hour(units: NonZeroU32) -> Self {
        Self::with(units.get().into(), units.get().into(), 3600)
    }

    fn with(burst: i64, units: i64, seconds: i64) -> Self {
        let limiter = Mutex::new(RateLimiter::new(PeriodicStore::new()));
        Self { limiter, burst, units, seconds }
    }

    pub fn check(&self, key: &str) -> bool {
        let (now, mut limiter) = (SystemTime::now(), self.limiter.lock().expect("no panic"));
        let answer = limiter.rate_limit(key, self.burst, self.units, self.seconds, 1, now);
        answer.expect("a valid limit").0
    }
}

/// In memory, with one counter for each user and hour. It has no burst: the limit is one that no run uses up.
pub struct Limitador {
    limiter: limitador::RateLimiter,
    namespace: Namespace,
}

impl Limitador {
    /// With room for twice the keys, since it evicts some when it is full.
    pub fn new(keys: usize) -> Self {
        let limiter = limitador::RateLimiter::new(2 * keys as u64);
        let user = "user".try_into().expect("a variable");
        limiter.add_limit(Limit::new("bench", u32::MAX.into(), 3600, [], [user]));
        Self { limiter, namespace: "bench".into() }
    }

    pub fn check(&self, key: &str) -> bool {
        let context = HashMap::from([("user".to_owned(), key.to_owned())]).into();
        let answer = self.limiter.check_rate_limited_and_update(&self.namespace, &context, 1);
        !answer.expect("a valid limit").limited
    }
}
