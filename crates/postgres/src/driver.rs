//! Opens stores in PostgreSQL.

use std::sync::Arc;

use tidegate::driver::{Finding, OpenStore, StoreDriver, StoreOptions};
use tidegate::store_kit::NetworkCounters;
use tidegate::{BreakerOptions, Reply, StoreError, StoreErrorKind};
use tidegate_cas::{CasOptions, CasStore};

use crate::backend::PostgresBackend;
use crate::error::remedy;
use crate::examine::examine;
use crate::pool::tls;
use crate::sweep;
use crate::url::PostgresUrl;

/// State in PostgreSQL, shared by all processes with the same database and prefix.
pub type PostgresStore = CasStore<PostgresBackend>;

/// Opens stores in PostgreSQL.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDrivers};
/// use tidegate_postgres::PostgresDriver;
///
/// const STORES: StoreDrivers = StoreDrivers(&[&MemoryDriver, &PostgresDriver]);
/// assert!(STORES.check("postgres://app@10.0.0.1/app").is_ok());
/// assert!(STORES.check("postgres://app:secret@10.0.0.1:port/app").is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PostgresDriver;

impl PostgresDriver {
    /// The store behind a URL. Needs a running tokio runtime.
    pub fn store(url: &str, options: &StoreOptions) -> Result<PostgresStore, StoreError> {
        let url = PostgresUrl::parse(url)?;
        let counters = Arc::new(NetworkCounters::default());
        let backend = PostgresBackend::new(url, counters.clone())?;
        let store = CasStore::new(backend, counters, CasOptions::from(options));
        sweep::start(store.backend());
        Ok(store)
    }
}

impl StoreDriver for PostgresDriver {
    fn schemes(&self) -> &'static [&'static str] {
        PostgresUrl::SCHEMES
    }

    /// Reads the URL, and the files that it names.
    fn check(&self, url: &str) -> Result<(), StoreError> {
        let url = PostgresUrl::parse(url)?;
        url.with_password()?;
        tls(&url).map(drop)
    }

    fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, StoreError> {
        let store = Self::store(url, options)?;
        // A batch that waits for a disk is slow, and no failure: only the deadline says that.
        let slow = options.deadline;
        let breaker = options.breaker.clone().map(|breaker| BreakerOptions { slow, ..breaker });
        Ok(OpenStore::with_breaker("postgres", store, breaker))
    }

    fn remedy(&self, kind: StoreErrorKind) -> Option<&'static str> {
        remedy(kind)
    }

    fn examine(
        &self,
        url: &str,
        _: &StoreOptions,
        nodes: u64,
    ) -> Reply<'static, Vec<Finding>, StoreError> {
        match PostgresUrl::parse(url) {
            Ok(url) => Reply::later(examine(url, nodes)),
            Err(error) => Reply::failed(error),
        }
    }
}
