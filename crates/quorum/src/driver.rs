//! Opens stores in a quorum of Redis servers.

use std::sync::Arc;

use tidegate::driver::{Finding, OpenStore, StoreDriver, StoreOptions};
use tidegate::store_kit::NetworkCounters;
use tidegate::{Reply, StoreError, StoreErrorKind};
use tidegate_cas::{CasOptions, CasStore};

use crate::backend::QuorumBackend;
use crate::examine::{examine, remedy};
use crate::url::QuorumUrl;

/// Opens stores in a quorum of Redis servers.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDrivers};
/// use tidegate_quorum::QuorumDriver;
///
/// const STORES: StoreDrivers = StoreDrivers(&[&MemoryDriver, &QuorumDriver]);
/// assert!(STORES.check("redis+quorum://10.0.0.1,10.0.0.2,10.0.0.3").is_ok());
/// assert!(STORES.check("redis+quorum://10.0.0.1,10.0.0.2").is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct QuorumDriver;

impl QuorumDriver {
    /// The store behind a URL. Needs a running tokio runtime.
    pub fn store(url: &str, options: &StoreOptions) -> Result<CasStore<QuorumBackend>, StoreError> {
        let counters = Arc::new(NetworkCounters::default());
        let backend = QuorumBackend::new(&QuorumUrl::parse(url)?, &options.key_prefix, &counters)?;
        Ok(CasStore::new(backend, counters, CasOptions::from(options)))
    }
}

impl StoreDriver for QuorumDriver {
    fn schemes(&self) -> &'static [&'static str] {
        QuorumUrl::SCHEMES
    }

    /// Reads the URL, and the files that it names.
    fn check(&self, url: &str) -> Result<(), StoreError> {
        QuorumUrl::parse(url)?.access().map(drop)
    }

    fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, StoreError> {
        let store = Self::store(url, options)?;
        Ok(OpenStore::with_breaker("quorum", store, options.breaker.clone()))
    }

    fn counts_one_identifier_per_step(&self) -> bool {
        true
    }

    fn is_quorum(&self) -> bool {
        true
    }

    fn remedy(&self, kind: StoreErrorKind) -> Option<&'static str> {
        remedy(kind)
    }

    fn examine(
        &self,
        url: &str,
        options: &StoreOptions,
        _: u64,
    ) -> Reply<'static, Vec<Finding>, StoreError> {
        let key_prefix = options.key_prefix.clone();
        match QuorumUrl::parse(url).and_then(|url| Ok((url.access()?, url))) {
            Ok((access, url)) => {
                Reply::later(async move { Ok(examine(&url, &access, &key_prefix).await) })
            }
            Err(error) => Reply::failed(error),
        }
    }
}
