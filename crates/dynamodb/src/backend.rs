//! Reads, and the bound on what is under way.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use futures_util::future::{join_all, try_join_all};
use tidegate::driver::Finding;
use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind};
use tidegate_cas::{Backend, Commit, ItemKey, Snapshot, Stored, Written};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use crate::connection::Connection;
use crate::error::{code, failed, is_answered, no_table};
use crate::item::{Attributes, ITEM_BYTES_MAX, Version, key_of, name_of, stored};
use crate::table::create;
use crate::url::DynamoDbUrl;

/// The most keys of one `BatchGetItem`, by DynamoDB's rules.
const KEYS_MAX: usize = 100;

/// The most items of one transaction, by DynamoDB's rules.
const COMMIT_ITEMS_MAX: usize = 100;

/// The most calls under way, each on a connection of its own.
const CALLS_MAX: usize = 64;

/// How often one read is sent: for keys that DynamoDB left out, and for an answer that was lost.
const READS_MAX: u32 = 6;

/// The longest pause before keys that were left out are asked for again, doubled each time.
const READ_PAUSE_UNIT: Duration = Duration::from_millis(2);

/// A table of DynamoDB.
#[derive(Debug)]
pub struct DynamoDbBackend {
    pub(crate) connection: Connection,
    pub(crate) room: Semaphore,
    pub(crate) versions: Versions,
}

/// Makes versions that never come again: a random number of this process, and a count.
#[derive(Debug)]
pub(crate) struct Versions {
    process: u64,
    next: AtomicU64,
}

impl Versions {
    fn new() -> Self {
        Self { process: RandomState::new().hash_one(0), next: AtomicU64::new(0) }
    }

    pub(crate) fn new_version(&self) -> Version {
        let count = self.next.fetch_add(1, Relaxed);
        let mut version = [0; 16];
        version[..8].copy_from_slice(&self.process.to_be_bytes());
        version[8..].copy_from_slice(&count.to_be_bytes());
        version
    }
}

impl DynamoDbBackend {
    /// A backend with these credentials, or those of the usual chain. Needs a running tokio runtime.
    pub fn new(
        url: DynamoDbUrl,
        credentials: Option<SharedCredentialsProvider>,
        counters: Arc<NetworkCounters>,
    ) -> Self {
        let connection = Connection::open(url, credentials, counters);
        Self { connection, room: Semaphore::new(CALLS_MAX), versions: Versions::new() }
    }

    /// Makes the table if it is not there, and lets what is expired be removed.
    pub async fn create_table(&self) -> Result<Vec<Finding>, StoreError> {
        create(&self.connection).await
    }

    /// Reads up to 100 items, by name. Those that do not exist are not in the answer.
    async fn read_some(
        &self,
        client: &Client,
        keys: &[ItemKey],
        due: Instant,
    ) -> Result<Vec<Attributes>, StoreError> {
        let mut left = consistent(keys.iter().map(|key| key_of(key)))?;
        let mut found = Vec::with_capacity(keys.len());
        for round in 1..=READS_MAX {
            match self.read_once(client, left.clone()).await {
                Ok((items, None)) => {
                    found.extend(items);
                    return Ok(found);
                }
                // Left out because of its partition's throughput, or because an answer has at most 16 MB.
                Ok((items, Some(unread))) => {
                    found.extend(items);
                    left = unread;
                }
                Err(error) if error.kind() == StoreErrorKind::Disconnected && round == 1 => {}
                Err(error) => return Err(error),
            }
            self.connection.counters.retries.add(1);
            let pause = self.read_pause(round);
            if Instant::now() + pause >= due {
                break;
            }
            sleep(pause).await;
        }
        Err(StoreError::new(StoreErrorKind::Overloaded, "DynamoDB left some keys unread"))
    }

    /// The items of one call, and the keys that it left out.
    async fn read_once(
        &self,
        client: &Client,
        keys: KeysAndAttributes,
    ) -> Result<(Vec<Attributes>, Option<KeysAndAttributes>), StoreError> {
        let _permit = self.room.acquire().await;
        let table = &self.connection.url.table;
        let answer = client.batch_get_item().request_items(table, keys).send().await;
        self.connection.note(answer.as_ref().err().is_none_or(is_answered));
        let answer = answer.map_err(|error| match code(&error) {
            Some("ResourceNotFoundException") => no_table(table),
            _ => failed(&error),
        })?;
        let items = answer.responses.and_then(|mut of| of.remove(table)).unwrap_or_default();
        let left = answer.unprocessed_keys.and_then(|mut of| of.remove(table));
        Ok((items, left.filter(|left| !left.keys.is_empty())))
    }

    fn read_pause(&self, round: u32) -> Duration {
        let longest = READ_PAUSE_UNIT * (1 << round.min(READS_MAX));
        // Any number will do: nodes should not come again together.
        let random = RandomState::new().hash_one(self.versions.next.load(Relaxed)) % 50;
        longest * (100 - u32::try_from(random).unwrap_or(0)) / 100
    }
}

/// Names keys of a table; what is read is what was written last.
pub(crate) fn consistent(
    keys: impl Iterator<Item = Attributes>,
) -> Result<KeysAndAttributes, StoreError> {
    let names = KeysAndAttributes::builder().consistent_read(true).set_keys(Some(keys.collect()));
    names.build().map_err(|error| StoreError::new(StoreErrorKind::BadRequest, error.to_string()))
}

impl Backend for DynamoDbBackend {
    type Version = Version;

    async fn read(&self, keys: &[ItemKey], due: Instant) -> Result<Snapshot<Version>, StoreError> {
        let client = self.connection.client(due).await?;
        let some = keys.chunks(KEYS_MAX).map(|keys| self.read_some(&client, keys, due));
        let mut found: HashMap<String, Stored<Version>> = HashMap::with_capacity(keys.len());
        for attributes in try_join_all(some).await?.into_iter().flatten() {
            if let Some(name) = name_of(&attributes).map(str::to_owned) {
                found.insert(name, stored(attributes));
            }
        }
        let absent = || Stored { version: None, bytes: Vec::new() };
        let items = keys.iter().map(|key| found.remove(&**key).unwrap_or_else(absent)).collect();
        Ok(Snapshot { now: None, items })
    }

    async fn write(
        &self,
        commits: &[Commit<Version>],
        due: Instant,
    ) -> Result<Vec<Written>, StoreError> {
        let client = self.connection.client(due).await?;
        Ok(join_all(commits.iter().map(|commit| self.commit(&client, commit))).await)
    }

    fn commit_items_max(&self) -> usize {
        COMMIT_ITEMS_MAX
    }

    fn item_bytes_max(&self) -> usize {
        ITEM_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn versions_never_come_again() {
        let nodes = [Versions::new(), Versions::new(), Versions::new()];
        let versions = (0..3_000).map(|n| nodes[n % 3].new_version());
        assert_eq!(versions.collect::<HashSet<_>>().len(), 3_000);
    }
}
