//! One server and its connection.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value as Wire;
use tidegate::driver::{StoreServer, StoreServerState};
use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind};
use tidegate_redis::{Access, Endpoint, ServerConnection};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use crate::replies::head;
use crate::script::Call;

/// The most calls that wait for one server, those included that nobody waits for any more.
const CALLS_MAX: usize = 256;

/// A connection that answers nothing for this long is closed.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// A server that owes answers and has given none for this long counts as hung: nothing is written to it, because nobody could
/// wait to learn whether it was.
const HUNG_AFTER: Duration = Duration::from_millis(20);

/// The pause after a failed attempt to connect, doubled with each up to the longest.
const RETRY_FIRST: Duration = Duration::from_millis(50);
const RETRY_DOUBLINGS: u32 = 5;

/// The longest reply: a batch of the largest items.
const REPLY_BYTES_MAX: u64 = 40 << 20;

/// One server.
pub(crate) struct Node {
    pub(crate) endpoint: Endpoint,
    access: Access,
    counters: Arc<NetworkCounters>,
    random: RandomState,
    room: Semaphore,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    link: Link,
    /// Calls that were sent and not answered.
    unanswered: usize,
    /// When the last answer came, or the first of these calls left.
    last_heard: Instant,
    /// What the last answer said, or why there was none.
    seen: StoreServerState,
}

enum Link {
    /// Not connected. No attempt is made before `retry_at`.
    Down {
        retry_at: Instant,
        failures: u32,
        why: StoreError,
    },
    Connecting,
    Up {
        connection: ServerConnection,
        number: u64,
    },
}

impl Node {
    pub(crate) fn new(endpoint: Endpoint, access: Access, counters: Arc<NetworkCounters>) -> Self {
        let now = Instant::now();
        let why = StoreError::new(StoreErrorKind::Unreachable, "not connected yet");
        let seen = StoreServerState::Away(why.clone());
        let link = Link::Down { retry_at: now, failures: 0, why };
        Self {
            endpoint,
            access,
            counters,
            random: RandomState::new(),
            room: Semaphore::new(CALLS_MAX),
            state: Mutex::new(State { link, unanswered: 0, last_heard: now, seen }),
            changed: Notify::new(),
        }
    }

    /// Whether it owes answers, and gives none.
    pub(crate) fn is_hung(&self) -> bool {
        let state = self.state();
        state.unanswered > 0 && state.last_heard.elapsed() > HUNG_AFTER
    }

    /// Keeps what an answer, or that there is none, says of the server.
    pub(crate) fn note(&self, reply: &Result<Wire, StoreError>) {
        let seen = match reply.as_ref().map(head) {
            Ok(Ok((now, standing, _))) => standing.state(now),
            // A call that forms a set has another answer.
            Ok(Err(_)) => return,
            Err(error) => StoreServerState::Away(error.clone()),
        };
        self.state().seen = seen;
    }

    /// As it was last seen.
    pub(crate) fn seen(&self) -> StoreServer {
        StoreServer { address: self.endpoint.to_string(), state: self.state().seen.clone() }
    }

    /// Calls a script. An error says by its kind whether it may have run. It waits for a connection until `due`, and for the
    /// answer as long as the connection lasts.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &Call,
        due: Instant,
    ) -> Result<Wire, StoreError> {
        let Ok(_permit) = self.room.try_acquire() else {
            return Err(self.error(StoreErrorKind::NotSent, "it owes too many answers"));
        };
        let (connection, number) = self.connection(due).await?;
        let mut reply = self.send(&connection, number, call.by_hash()).await;
        if matches!(&reply, Err(error) if error.kind() == StoreErrorKind::NoScript) {
            self.counters.noscript.add(1);
            reply = self.send(&connection, number, call.by_source()).await;
        }
        reply
    }

    async fn send(
        self: &Arc<Self>,
        connection: &ServerConnection,
        number: u64,
        command: redis::Cmd,
    ) -> Result<Wire, StoreError> {
        let _owed = Owed::new(self);
        match timeout(SILENCE_MAX, connection.call(&command)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if matches!(error.kind(), StoreErrorKind::Disconnected | StoreErrorKind::Protocol) {
                    self.lost(number, &error);
                }
                Err(error)
            }
            Err(_) => {
                let error = self.error(StoreErrorKind::Timeout, "no answer for a second");
                self.lost(number, &error);
                Err(error)
            }
        }
    }

    /// The connection, or one that is made now.
    async fn connection(
        self: &Arc<Self>,
        due: Instant,
    ) -> Result<(ServerConnection, u64), StoreError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let begins = {
                let mut state = self.state();
                match &state.link {
                    Link::Up { connection, number } => return Ok((connection.clone(), *number)),
                    Link::Connecting => None,
                    Link::Down { retry_at, why, .. } if Instant::now() < *retry_at => {
                        return Err(why.clone());
                    }
                    Link::Down { failures, .. } => {
                        let failures = *failures;
                        state.link = Link::Connecting;
                        Some(failures)
                    }
                }
            };
            if let Some(failures) = begins {
                let node = self.clone();
                tokio::spawn(async move { node.connect(failures).await });
            }
            if timeout_at(due, changed).await.is_err() {
                let why = "no connection within the deadline";
                return Err(self.error(StoreErrorKind::NotSent, why));
            }
        }
    }

    /// Connects once, and tells those who wait.
    async fn connect(self: Arc<Self>, failures: u32) {
        let open = ServerConnection::open(&self.endpoint, &self.access, REPLY_BYTES_MAX);
        let opened = match timeout(SILENCE_MAX, open).await {
            Ok(opened) => opened,
            Err(_) => Err(self.error(StoreErrorKind::Unreachable, "no connection for a second")),
        };
        match opened {
            Ok((connection, driver)) => {
                self.counters.connects.add(1);
                let number = self.random.hash_one(Instant::now());
                self.set(Link::Up { connection, number });
                let node = Arc::downgrade(&self);
                drop(self);
                tokio::spawn(async move {
                    driver.await;
                    if let Some(node) = node.upgrade() {
                        let why = node.error(StoreErrorKind::Unreachable, "the connection ended");
                        node.lost(number, &why);
                    }
                });
            }
            Err(why) => {
                self.counters.connect_failures.add(1);
                let longest = RETRY_FIRST * (1 << failures.min(RETRY_DOUBLINGS));
                let percent = u32::try_from(self.random.hash_one(Instant::now()) % 50).unwrap_or(0);
                let retry_at = Instant::now() + longest * (50 + percent) / 100;
                self.set(Link::Down { retry_at, failures: failures.saturating_add(1), why });
            }
        }
    }

    /// This connection is of no use any more. The next call makes another one at once.
    fn lost(&self, number: u64, why: &StoreError) {
        let is_this = matches!(&self.state().link, Link::Up { number: up, .. } if *up == number);
        if is_this {
            self.counters.disconnects.add(1);
            let why = StoreError::new(StoreErrorKind::Unreachable, why.to_string());
            self.set(Link::Down { retry_at: Instant::now(), failures: 0, why });
        }
    }

    fn set(&self, link: Link) {
        self.state().link = link;
        self.changed.notify_waiters();
    }

    fn error(&self, kind: StoreErrorKind, why: &str) -> StoreError {
        StoreError::new(kind, format!("{}: {why}", self.endpoint))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({})", self.endpoint)
    }
}

/// A call that was sent: it owes an answer until this is dropped.
struct Owed<'a>(&'a Node);

impl<'a> Owed<'a> {
    fn new(node: &'a Node) -> Self {
        let mut state = node.state();
        if state.unanswered == 0 {
            state.last_heard = Instant::now();
        }
        state.unanswered += 1;
        drop(state);
        Self(node)
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.unanswered = state.unanswered.saturating_sub(1);
        state.last_heard = Instant::now();
    }
}
