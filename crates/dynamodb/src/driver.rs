//! Opens stores in DynamoDB.

use std::sync::Arc;

use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use tidegate::driver::{Finding, OpenStore, StoreDriver, StoreOptions};
use tidegate::store_kit::NetworkCounters;
use tidegate::{BreakerOptions, Reply, StoreError};
use tidegate_cas::{CasOptions, CasStore};

use crate::backend::DynamoDbBackend;
use crate::connection::Connection;
use crate::examine::examine;
use crate::table::create;
use crate::url::DynamoDbUrl;

/// How many batches are under way: a round trip takes milliseconds, and no connection is short.
const LANES: usize = 16;

/// State in DynamoDB, shared by all processes with the same table and prefix.
pub type DynamoDbStore = CasStore<DynamoDbBackend>;

/// Opens stores in DynamoDB.
///
/// ```
/// use tidegate::driver::{MemoryDriver, StoreDrivers};
/// use tidegate_dynamodb::DynamoDbDriver;
///
/// const STORES: StoreDrivers = StoreDrivers(&[&MemoryDriver, &DynamoDbDriver]);
/// assert!(STORES.check("dynamodb://tidegate?region=eu-central-1").is_ok());
/// assert!(STORES.check("dynamodb://tidegate?region=").is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DynamoDbDriver;

impl DynamoDbDriver {
    /// The store behind a URL, with the credentials of the usual chain. Needs a running tokio runtime.
    pub fn store(url: &str, options: &StoreOptions) -> Result<DynamoDbStore, StoreError> {
        Self::open_store(url, options, None)
    }

    /// The same with credentials of one's own.
    pub fn store_with(
        url: &str,
        options: &StoreOptions,
        credentials: impl ProvideCredentials + 'static,
    ) -> Result<DynamoDbStore, StoreError> {
        Self::open_store(url, options, Some(SharedCredentialsProvider::new(credentials)))
    }

    fn open_store(
        url: &str,
        options: &StoreOptions,
        credentials: Option<SharedCredentialsProvider>,
    ) -> Result<DynamoDbStore, StoreError> {
        let counters = Arc::new(NetworkCounters::default());
        let backend = DynamoDbBackend::new(DynamoDbUrl::parse(url)?, credentials, counters.clone());
        let options = CasOptions { lanes: LANES, ..CasOptions::from(options) };
        Ok(CasStore::new(backend, counters, options))
    }
}

impl StoreDriver for DynamoDbDriver {
    fn schemes(&self) -> &'static [&'static str] {
        DynamoDbUrl::SCHEMES
    }

    fn check(&self, url: &str) -> Result<(), StoreError> {
        DynamoDbUrl::parse(url).map(drop)
    }

    fn open(&self, url: &str, options: &StoreOptions) -> Result<OpenStore, StoreError> {
        let store = Self::store(url, options)?;
        // Two round trips of some milliseconds are slow, and no failure: only the deadline says that.
        let slow = options.deadline;
        let breaker = options.breaker.clone().map(|breaker| BreakerOptions { slow, ..breaker });
        Ok(OpenStore::with_breaker("dynamodb", store, breaker))
    }

    fn create(&self, url: &str) -> Reply<'static, Vec<Finding>, StoreError> {
        match DynamoDbUrl::parse(url) {
            Ok(url) => Reply::later(async { create(&connection(url)).await }),
            Err(error) => Reply::failed(error),
        }
    }

    fn examine(
        &self,
        url: &str,
        _: &StoreOptions,
        _: u64,
    ) -> Reply<'static, Vec<Finding>, StoreError> {
        match DynamoDbUrl::parse(url) {
            Ok(url) => Reply::later(async { examine(&connection(url)).await }),
            Err(error) => Reply::failed(error),
        }
    }
}

fn connection(url: DynamoDbUrl) -> Connection {
    Connection::open(url, None, Arc::default())
}
