//! The two statements of a batch.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind, Timestamp};
use tidegate_cas::{Backend, Commit, ItemKey, Snapshot, Stored, Written};
use tokio::time::Instant;
use tokio_postgres::Row;

use crate::error::{failed, is_conflict};
use crate::pool::Pool;
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

    /// The arguments of the write, column by column.
    fn columns(&self, commits: &[Commit<i64>]) -> Columns {
        let mut columns = Columns::default();
        for (number, commit) in (0..).zip(commits) {
            for update in &commit.updates {
                columns.keys.push(update.key.to_string());
                columns.commits.push(number);
                columns.expected.push(update.expected.unwrap_or(0));
                let is_removed = update.bytes.is_empty();
                columns.versions.push(if is_removed { 0 } else { self.versions.new_version() });
                // Longer than a century: for ever.
                let life = i64::try_from(update.life.as_millis()).ok().filter(|ms| *ms < 1 << 42);
                columns.lives_ms.push(life.unwrap_or(-1));
                columns.contents.push(update.bytes.clone());
            }
        }
        columns
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

#[derive(Default)]
struct Columns {
    keys: Vec<String>,
    commits: Vec<i32>,
    expected: Vec<i64>,
    versions: Vec<i64>,
    lives_ms: Vec<i64>,
    contents: Vec<Vec<u8>>,
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
        snapshot(&rows)
            .map_err(|error| StoreError::new(StoreErrorKind::Protocol, error.to_string()))
    }

    async fn write(
        &self,
        commits: &[Commit<i64>],
        due: Instant,
    ) -> Result<Vec<Written>, StoreError> {
        let lent = self.pool.get(due).await?;
        let Some((client, connected)) = lent.get() else { return Err(gone()) };
        let columns = self.columns(commits);
        let Columns { keys, commits: numbers, expected, versions, lives_ms, contents } = &columns;
        let wait_ms = due.saturating_duration_since(Instant::now()).as_millis().clamp(1, 60_000);
        let wait_ms = i32::try_from(wait_ms).unwrap_or(1);
        let row = client
            .query_one(
                &connected.write,
                &[&wait_ms, keys, numbers, expected, versions, lives_ms, contents],
            )
            .await;
        let changed: Vec<i32> = match row {
            Ok(row) => row
                .try_get(0)
                .map_err(|error| StoreError::new(StoreErrorKind::Protocol, error.to_string()))?,
            Err(error) if is_conflict(&error) => {
                lent.give_back();
                return Ok(vec![Written::Changed; commits.len()]);
            }
            Err(error) => {
                let failed = self.failed(&error);
                if error.as_db_error().is_some() {
                    lent.give_back();
                }
                return Err(failed);
            }
        };
        lent.give_back();
        let written = |number: i32| {
            if changed.contains(&number) { Written::Changed } else { Written::Done }
        };
        Ok((0..).zip(commits).map(|(number, _)| written(number)).collect())
    }

    fn item_bytes_max(&self) -> usize {
        ITEM_BYTES_MAX
    }
}

fn gone() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "the connection is gone")
}

fn snapshot(rows: &[Row]) -> Result<Snapshot<i64>, tokio_postgres::Error> {
    let mut now = None;
    let mut items = Vec::with_capacity(rows.len());
    for row in rows {
        now = Some(row.try_get::<_, i64>(0)?);
        let version = row.try_get::<_, Option<i64>>(1)?.filter(|version| *version != 0);
        let bytes = if version.is_some() { row.try_get(2)? } else { Vec::new() };
        items.push(Stored { version, bytes });
    }
    let now = now.and_then(|us| u64::try_from(us).ok()).map(Timestamp::from_micros);
    Ok(Snapshot { now, items })
}
