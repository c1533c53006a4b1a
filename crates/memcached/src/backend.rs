//! One server and its connections.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::store_kit::NetworkCounters;
use tidegate::{Clock, StoreError, StoreErrorKind, SystemClock};
use tidegate_cas::{Backend, Commit, ItemKey, Snapshot, Written};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::protocol::{COMMAND_BYTES_EXPECTED, Connection, ITEM_BYTES_MAX, push_delete, push_set};

/// From here on memcached takes an expiration time as a date.
const RELATIVE_MAX: Duration = Duration::from_hours(24 * 30);

/// One memcached server.
#[derive(Debug)]
pub(crate) struct Server {
    address: String,
    idle: Mutex<Vec<Connection>>,
    room: Semaphore,
    counters: Arc<NetworkCounters>,
}

/// A connection while it is used. Dropped before it is given back, it is closed: a reply may still be under way.
struct Lent<'a> {
    connection: Connection,
    server: &'a Server,
    _permit: SemaphorePermit<'a>,
}

impl Server {
    pub(crate) fn new(address: String, connections: usize, counters: Arc<NetworkCounters>) -> Self {
        Self { address, idle: Mutex::default(), room: Semaphore::new(connections), counters }
    }

    async fn lend(&self, due: Instant) -> Result<Lent<'_>, StoreError> {
        let late = || StoreError::new(StoreErrorKind::NotSent, "no connection within the deadline");
        let Ok(Ok(permit)) = timeout_at(due, self.room.acquire()).await else { return Err(late()) };
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect(due).await?,
        };
        Ok(Lent { connection, server: self, _permit: permit })
    }

    async fn connect(&self, due: Instant) -> Result<Connection, StoreError> {
        let opened = timeout_at(due, Connection::open(&self.address)).await;
        let why = match opened {
            Ok(Ok(connection)) => {
                self.counters.connects.add(1);
                return Ok(connection);
            }
            Ok(Err(error)) => format!("{error} ({})", self.address),
            Err(_) => format!("no connection within the deadline ({})", self.address),
        };
        self.counters.connect_failures.add(1);
        Err(StoreError::new(StoreErrorKind::Unreachable, why))
    }

    /// A call that failed: its connection is closed.
    fn failed(&self, error: &io::Error) -> StoreError {
        self.counters.disconnects.add(1);
        let kind = match error.kind() {
            io::ErrorKind::InvalidData => StoreErrorKind::Protocol,
            _ => StoreErrorKind::Disconnected,
        };
        StoreError::new(kind, format!("{error} ({})", self.address))
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent<'_> {
    fn give_back(self) {
        self.server.idle().push(self.connection);
    }
}

impl Backend for Server {
    type Version = u64;

    async fn read(&self, keys: &[ItemKey], due: Instant) -> Result<Snapshot<u64>, StoreError> {
        let mut lent = self.lend(due).await?;
        let items = lent.connection.get(keys).await.map_err(|error| self.failed(&error))?;
        lent.give_back();
        Ok(Snapshot { now: None, items })
    }

    /// A commit has one item: see [`Backend::commit_items_max`].
    async fn write(
        &self,
        commits: &[Commit<u64>],
        due: Instant,
    ) -> Result<Vec<Written>, StoreError> {
        let mut commands = Vec::with_capacity(commits.len() * COMMAND_BYTES_EXPECTED);
        // What was absent and is to be removed needs no command.
        let mut sent = Vec::with_capacity(commits.len());
        for commit in commits {
            let Some(update) = commit.updates.first() else { continue };
            match update.expected {
                _ if !update.bytes.is_empty() => {
                    let expires = expiration(update.life);
                    push_set(&mut commands, &update.key, update.expected, &update.bytes, expires);
                }
                Some(version) => push_delete(&mut commands, &update.key, version),
                None => {
                    sent.push(false);
                    continue;
                }
            }
            sent.push(true);
        }
        let mut lent = self.lend(due).await?;
        let count = sent.iter().filter(|sent| **sent).count();
        let written =
            lent.connection.set(&commands, count).await.map_err(|error| self.failed(&error))?;
        lent.give_back();
        let mut written = written.into_iter();
        let missing = || StoreError::new(StoreErrorKind::Protocol, "a reply is missing");
        sent.into_iter()
            .map(|sent| if sent { written.next().ok_or_else(missing) } else { Ok(Written::Done) })
            .collect()
    }

    fn commit_items_max(&self) -> usize {
        1
    }

    fn item_bytes_max(&self) -> usize {
        ITEM_BYTES_MAX
    }
}

/// A life as memcached's expiration time: seconds from now, or a date from 30 days on; 0 for ever.
fn expiration(life: Duration) -> u64 {
    let seconds = life.as_secs().saturating_add(1);
    if life < RELATIVE_MAX {
        return seconds;
    }
    let date = SystemClock.now().as_micros() / 1_000_000 + seconds.min(1 << 32);
    if u32::try_from(date).is_ok() { date } else { 0 }
}
