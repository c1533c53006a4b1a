//! Opens stores in memcached.

use std::sync::Arc;

use tidegate::driver::{Finding, OpenStore, StoreDriver, StoreOptions};
use tidegate::store_kit::NetworkCounters;
use tidegate::{Reply, StoreError};
use tidegate_cas::{CasOptions, CasStore};

use crate::backend::Server;
use crate::examine::examine;
use crate::ring::Ring;
use crate::store::{MemcachedStore, RECORDS};
use crate::url::MemcachedUrl;

/// Opens stores in memcached.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDrivers};
/// use tidegate_memcached::MemcachedDriver;
///
/// const STORES: StoreDrivers = StoreDrivers(&[&MemoryDriver, &MemcachedDriver]);
/// assert!(STORES.check("memcached://10.0.0.1:11211,10.0.0.2:11211").is_ok());
/// assert!(STORES.check("memcached://10.0.0.1:port").is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MemcachedDriver;

impl MemcachedDriver {
    /// The store behind a URL. Needs a running tokio runtime.
    pub fn store(url: &str, options: &StoreOptions) -> Result<MemcachedStore, StoreError> {
        let MemcachedUrl { servers, connections } = MemcachedUrl::parse(url)?;
        let ring = Ring::new(&servers);
        let records = ring.server(RECORDS);
        let open = |(number, address): (usize, String)| {
            let counters = Arc::new(NetworkCounters::default());
            let server = Server::new(address, connections, counters.clone());
            let mut cas = CasOptions::from(options);
            // A node is announced once.
            cas.announces &= number == records;
            let store = CasStore::new(server, counters, cas);
            OpenStore::with_breaker("memcached", store, options.breaker.clone())
        };
        let servers = servers.into_iter().enumerate().map(open).collect();
        Ok(MemcachedStore::new(servers, ring))
    }
}

impl StoreDriver for MemcachedDriver {
    fn schemes(&self) -> &'static [&'static str] {
        MemcachedUrl::SCHEMES
    }

    fn check(&self, url: &str) -> Result<(), StoreError> {
        MemcachedUrl::parse(url).map(drop)
    }

    fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, StoreError> {
        Ok(OpenStore::new("memcached", Self::store(url, options)?))
    }

    fn counts_one_identifier_per_step(&self) -> bool {
        true
    }

    fn examine(
        &self,
        url: &str,
        _: &StoreOptions,
        _: u64,
    ) -> Reply<'static, Vec<Finding>, StoreError> {
        match MemcachedUrl::parse(url) {
            Ok(url) => Reply::later(async move { Ok(examine(&url).await) }),
            Err(error) => Reply::failed(error),
        }
    }
}
