//! The driver of `redis://…` and its other forms.

use tidegate::driver::{OpenStore, StoreDriver, StoreMonitor, StoreOptions, StoreReport};
use tidegate::{BreakerState, StoreError};

use crate::access::Access;
use crate::options::RedisOptions;
use crate::store::RedisStore;
use crate::url::RedisUrl;

/// Opens stores in Redis.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDrivers};
/// use tidegate_redis::RedisDriver;
///
/// const STORES: StoreDrivers = StoreDrivers(&[&MemoryDriver, &RedisDriver]);
/// assert!(STORES.check("redis+cluster://10.0.0.1:7000").is_ok());
/// assert!(STORES.check("redis+cluster://:secret@10.0.0.1:port").is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RedisDriver;

impl StoreDriver for RedisDriver {
    fn schemes(&self) -> &'static [&'static str] {
        RedisUrl::SCHEMES
    }

    /// Reads the URL, and the files that it names.
    fn check(&self, url: &str) -> Result<(), StoreError> {
        let RedisUrl { login, db, tls, .. } = RedisUrl::parse(url)?;
        Access::new(login, db, tls.as_ref()).map(drop)
    }

    fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, StoreError> {
        let StoreOptions { key_prefix, deadline, replays, breaker, announces } = options.clone();
        let options = RedisOptions {
            key_prefix,
            deadline,
            replays,
            announces,
            breaker,
            ..RedisOptions::new(url)
        };
        Ok(OpenStore::new("redis", RedisStore::new(options)?))
    }
}

impl StoreMonitor for RedisStore {
    fn report(&self) -> StoreReport {
        let breakers = self.breakers();
        let is = |state| breakers.iter().any(|breaker| breaker.state == state);
        let mut worst = [BreakerState::Open, BreakerState::Probing].into_iter();
        let worst = worst.find(|state| is(*state)).unwrap_or(BreakerState::Closed);
        let opened_total = breakers.iter().map(|breaker| breaker.opened_total).sum();
        StoreReport {
            memory: None,
            network: Some(self.stats()),
            call_times: Some(self.call_times()),
            breaker: Some((worst, opened_total)),
        }
    }
}
