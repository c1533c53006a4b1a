//! The two statements of a batch: it reads rows, and writes those that are unchanged.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind, Timestamp};
use tidegate_cas::{Backend, Commit, ItemKey, Snapshot, Stored, Update, Written};
use tokio::time::Instant;
use tokio_postgres::{Client, Error, Row};

use crate::error::{failed, is_conflict};
use crate::pool::{Connected, Pool};
use crate::url::PostgresUrl;

/// The most bytes of one row: far above any state, far below what PostgreSQL can.
const ITEM_BYTES_MAX: usize = 16 << 20;

/// A table of PostgreSQL.
#[derive(Debug)]
pub struct PostgresBackend {
    pub(crate) pool: Pool,
    versions: Versions,
}

/// Makes versions that never come again: numbers of a keyed hash.
#[derive(Debug, Default)]
struct Versions {
    hash: RandomState,
    next: AtomicU64,
}

impl Versions {
    /// Never 0, which stands for a row that says nothing.
    fn new_version(&self) -> i64 {
        let bits = self.hash.hash_one(self.next.fetch_add(1, Relaxed));
        i64::from_ne_bytes((bits | 1).to_ne_bytes())
    }
}

impl PostgresBackend {
    /// A backend that connects when it is asked. Needs a running tokio runtime.
    pub fn new(url: PostgresUrl, counters: Arc<NetworkCounters>) -> Result<Self, StoreError> {
        Ok(Self { pool: Pool::new(url, counters)?, versions: Versions::default() })
    }

    /// A new version for an update; 0 for what is removed.
    fn version(&self, update: &Update<i64>) -> i64 {
        if update.bytes.is_empty() { 0 } else { self.versions.new_version() }
    }

    /// Writes commits of one row each: they need not wait for each other.
    async fn swap(
        &self,
        (client, connected): (&Client, &Connected),
        commits: &[Commit<i64>],
        wait_ms: i32,
    ) -> Result<Vec<bool>, Error> {
        // What is missing and to be removed is as it should be.
        let mut written: Vec<bool> =
            commits.iter().map(|commit| rows(commit).next().is_none()).collect();
        let mut updates: Vec<_> = (0_usize..)
            .zip(commits)
            .flat_map(|(number, commit)| rows(commit).map(move |row| (row, number)))
            .collect();
        updates.sort_unstable_by(|(a, _), (b, _)| a.key.cmp(&b.key));
        if updates.is_empty() {
            return Ok(written);
        }
        let rows = || updates.iter().map(|(update, _)| *update);
        let keys: Vec<&str> = rows().map(|row| &*row.key).collect();
        let expected: Vec<Option<i64>> = rows().map(|row| row.expected).collect();
        let versions: Vec<i64> = rows().map(|row| self.version(row)).collect();
        let lives_ms: Vec<i64> = rows().map(life_ms).collect();
        let contents: Vec<&[u8]> = rows().map(|row| &*row.bytes).collect();
        let row = client
            .query_one(
                &connected.swap,
                &[&wait_ms, &keys, &expected, &versions, &lives_ms, &contents],
            )
            .await?;
        // Places count from 1.
        for place in row.try_get::<_, Vec<i64>>(0)? {
            let update = usize::try_from(place - 1).ok().and_then(|index| updates.get(index));
            if let Some((_, number)) = update {
                written[*number] = true;
            }
        }
        Ok(written)
    }

    /// Writes commits of which some have several rows.
    async fn write_all(
        &self,
        (client, connected): (&Client, &Connected),
        commits: &[Commit<i64>],
        wait_ms: i32,
    ) -> Result<Vec<bool>, Error> {
        let rows = || {
            (0_i32..)
                .zip(commits)
                .flat_map(|(number, commit)| commit.updates.iter().map(move |row| (number, row)))
        };
        let keys: Vec<&str> = rows().map(|(_, row)| &*row.key).collect();
        let numbers: Vec<i32> = rows().map(|(number, _)| number).collect();
        let expected: Vec<i64> = rows().map(|(_, row)| row.expected.unwrap_or(0)).collect();
        let versions: Vec<i64> = rows().map(|(_, row)| self.version(row)).collect();
        let lives_ms: Vec<i64> = rows().map(|(_, row)| life_ms(row)).collect();
        let contents: Vec<&[u8]> = rows().map(|(_, row)| &*row.bytes).collect();
        let row = client
            .query_one(
                &connected.write,
                &[&wait_ms, &keys, &numbers, &expected, &versions, &lives_ms, &contents],
            )
            .await?;
        let changed: Vec<i32> = row.try_get(0)?;
        Ok((0..).zip(commits).map(|(number, _)| !changed.contains(&number)).collect())
    }

    /// What an error of a statement means; and what is to be done about its connections.
    fn failed(&self, error: &tokio_postgres::Error) -> StoreError {
        let error = failed(error);
        if error.kind() == StoreErrorKind::ReadOnly {
            self.pool.forget_connections();
        }
        error
    }
}

/// The rows of a commit that a statement has to write.
fn rows(commit: &Commit<i64>) -> impl Iterator<Item = &Update<i64>> {
    commit.updates.iter().filter(|row| row.expected.is_some() || !row.bytes.is_empty())
}

/// A life in milliseconds; -1 for ever, which is longer than a century.
fn life_ms(update: &Update<i64>) -> i64 {
    let ms = i64::try_from(update.life.as_millis()).ok();
    ms.filter(|ms| *ms < 1 << 42).unwrap_or(-1)
}

impl Backend for PostgresBackend {
    type Version = i64;

    async fn read(&self, keys: &[ItemKey], due: Instant) -> Result<Snapshot<i64>, StoreError> {
        let lent = self.pool.get(due).await?;
        let Some((client, connected)) = lent.get() else { return Err(gone()) };
        let names: Vec<&str> = keys.iter().map(|key| &**key).collect();
        let rows =
            client.query(&connected.read, &[&names]).await.map_err(|error| self.failed(&error))?;
        lent.give_back();
        snapshot(&names, &rows)
            .map_err(|error| StoreError::new(StoreErrorKind::Protocol, error.to_string()))
    }

    async fn write(
        &self,
        commits: &[Commit<i64>],
        due: Instant,
    ) -> Result<Vec<Written>, StoreError> {
        let lent = self.pool.get(due).await?;
        let Some(connection) = lent.get() else { return Err(gone()) };
        let wait_ms = due.saturating_duration_since(Instant::now()).as_millis().clamp(1, 60_000);
        let wait_ms = i32::try_from(wait_ms).unwrap_or(1);
        let written = if commits.iter().all(|commit| commit.updates.len() == 1) {
            self.swap(connection, commits, wait_ms).await
        } else {
            self.write_all(connection, commits, wait_ms).await
        };
        match written {
            Ok(written) => {
                lent.give_back();
                let outcome = |done| if done { Written::Done } else { Written::Changed };
                Ok(written.into_iter().map(outcome).collect())
            }
            Err(error) if is_conflict(&error) => {
                lent.give_back();
                Ok(vec![Written::Changed; commits.len()])
            }
            Err(error) => {
                let failed = self.failed(&error);
                if error.as_db_error().is_some() {
                    lent.give_back();
                }
                Err(failed)
            }
        }
    }

    fn item_bytes_max(&self) -> usize {
        ITEM_BYTES_MAX
    }
}

fn gone() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "the connection is gone")
}

/// The rows that were found, in the order of the names. The first row is the time.
fn snapshot(names: &[&str], rows: &[Row]) -> Result<Snapshot<i64>, Error> {
    let Some((time, rows)) = rows.split_first() else {
        return Ok(Snapshot { now: None, items: Vec::new() });
    };
    let now = u64::try_from(time.try_get::<_, i64>(1)?).ok().map(Timestamp::from_micros);
    let mut items = vec![Stored { version: None, bytes: Vec::new() }; names.len()];
    let mut places: Vec<usize> = (0..names.len()).collect();
    places.sort_unstable_by_key(|place| names[*place]);
    for row in rows {
        let key: &str = row.try_get(0)?;
        if let Ok(found) = places.binary_search_by_key(&key, |place| names[*place]) {
            items[places[found]] =
                Stored { version: Some(row.try_get(1)?), bytes: row.try_get(2)? };
        }
    }
    Ok(Snapshot { now, items })
}
