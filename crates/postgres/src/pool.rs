//! Connections: few, made when they are needed, and given up when a statement on them did not end in time.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::error::{failed, not_connected};
use crate::schema::{self, Statements};
use crate::servers::{self, each_server};
use crate::url::{Durability, PostgresUrl};

/// The longest time that a connection to one server takes, and giving one up. A check does not wait that long: a connection
/// that is late serves the next one.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// How long a statement may run on the server after its caller has given up.
const STATEMENT_TIMEOUT_MS: u32 = 2_000;

/// Rows are always found by their key, in the order that was asked for: it is the order in which they are locked. A plan
/// made while the table was small must not read the whole table when it has grown.
const PLANS: &str = "-c jit=off -c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_bitmapscan=off -c enable_hashjoin=off -c enable_mergejoin=off";

/// How long an examination waits for a connection.
pub(crate) const EXAMINE_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    url: PostgresUrl,
    tls: Option<Tls>,
    statements: Statements,
    idle: Mutex<Vec<Connected>>,
    /// One permit for each connection that is used, being made, or being given up.
    room: Arc<Semaphore>,
    /// Rises when connections made before are of no use: they lead to a server that is not the primary any more.
    generation: AtomicU64,
    /// The number of the server that accepted writes last: it is tried first.
    primary: AtomicUsize,
    runtime: Handle,
    counters: Arc<NetworkCounters>,
}

#[cfg(feature = "tls")]
type Tls = tokio_postgres_rustls::MakeRustlsConnect;
#[cfg(not(feature = "tls"))]
type Tls = NoTls;

/// An open connection with its statements.
pub(crate) struct Connected {
    client: Client,
    generation: u64,
    pub(crate) read: Statement,
    pub(crate) swap: Statement,
    pub(crate) write: Statement,
    pub(crate) sweep: Statement,
}

impl Pool {
    /// Needs a running tokio runtime.
    pub(crate) fn new(
        url: PostgresUrl,
        counters: Arc<NetworkCounters>,
    ) -> Result<Self, StoreError> {
        let tls = tls(&url)?;
        let statements = Statements::new(url.durability);
        let room = Arc::new(Semaphore::new(url.connections));
        let shared = Shared {
            url,
            tls,
            statements,
            idle: Mutex::default(),
            room,
            generation: AtomicU64::new(0),
            primary: AtomicUsize::new(0),
            runtime: Handle::current(),
            counters,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A connection that nobody else uses.
    pub(crate) async fn get(&self, due: Instant) -> Result<Lent, StoreError> {
        let late = || {
            let names: Vec<_> =
                each_server(&self.shared.url.config).iter().map(servers::name).collect();
            let why = format!("{}: no connection within the deadline", names.join(", "));
            StoreError::new(StoreErrorKind::NotSent, why)
        };
        let room = self.shared.room.clone().acquire_owned();
        let Ok(Ok(permit)) = timeout_at(due, room).await else { return Err(late()) };
        if let Some(connected) = self.shared.take_idle() {
            return Ok(Lent {
                pool: self.clone(),
                connected: Some(connected),
                permit: Some(permit),
            });
        }
        // Made by a task of its own: a check that gives up does not stop it, and the next one finds it.
        let (pool, (done, made)) = (self.clone(), oneshot::channel());
        self.shared.runtime.spawn(async move {
            let connected = pool.shared.connect().await;
            let lent = |connected| Lent { pool, connected: Some(connected), permit: Some(permit) };
            if let Err(Ok(unclaimed)) = done.send(connected.map(lent)) {
                unclaimed.give_back();
            }
        });
        match timeout_at(due, made).await {
            Ok(Ok(lent)) => lent,
            _ => Err(late()),
        }
    }

    /// Forgets all connections that were made before: their server does not write any more.
    pub(crate) fn forget_connections(&self) {
        self.shared.generation.fetch_add(1, Relaxed);
        self.shared.lock_idle().clear();
    }
}

impl Shared {
    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Connected>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last and is still open.
    fn take_idle(&self) -> Option<Connected> {
        loop {
            let connected = self.lock_idle().pop()?;
            if self.is_usable(&connected) {
                return Some(connected);
            }
        }
    }

    fn is_usable(&self, connected: &Connected) -> bool {
        !connected.client.is_closed() && connected.generation == self.generation.load(Relaxed)
    }

    async fn connect(self: &Arc<Self>) -> Result<Connected, StoreError> {
        let made = self.find_primary().await;
        if made.is_err() {
            self.counters.connect_failures.add(1);
        }
        made
    }

    /// Tries each server once, the primary of the last time first. So a process does not leave a primary that works for
    /// an older one that came back.
    async fn find_primary(self: &Arc<Self>) -> Result<Connected, StoreError> {
        let servers = each_server(&self.config()?);
        let first = self.primary.load(Relaxed);
        let mut failures: Vec<(String, StoreError)> = Vec::new();
        for number in (first..).take(servers.len()).map(|number| number % servers.len()) {
            let Some(server) = servers.get(number) else { break };
            let late = || StoreError::new(StoreErrorKind::Unreachable, "no connection within 2s");
            let made = timeout(CONNECT_DEADLINE, self.try_connect(server)).await;
            match made.unwrap_or_else(|_| Err(late())) {
                Ok(connected) => {
                    self.primary.store(number, Relaxed);
                    return Ok(connected);
                }
                Err(error) => failures.push((servers::name(server), error)),
            }
        }
        Err(one_error(&failures))
    }

    /// How to connect, with the password as its file has it now.
    fn config(&self) -> Result<Config, StoreError> {
        let mut config = self.url.with_password()?;
        let commit = if self.url.durability == Durability::Full { "on" } else { "off" };
        let options = format!(
            "-c statement_timeout={STATEMENT_TIMEOUT_MS} -c synchronous_commit={commit} {PLANS}"
        );
        let theirs = config.get_options().map(|theirs| format!("{theirs} ")).unwrap_or_default();
        config.options(format!("{theirs}{options}"));
        Ok(config)
    }

    async fn try_connect(self: &Arc<Self>, server: &Config) -> Result<Connected, StoreError> {
        let generation = self.generation.load(Relaxed);
        let client = self.open(server).await?;
        schema::ensure(&client, self.url.durability).await.map_err(|error| failed(&error))?;
        let Statements { read, swap, write, sweep } = &self.statements;
        let prepare = async |text: &str| client.prepare(text).await.map_err(|error| failed(&error));
        let (read, swap, write, sweep) = (
            prepare(read).await?,
            prepare(swap).await?,
            prepare(write).await?,
            prepare(sweep).await?,
        );
        self.counters.connects.add(1);
        Ok(Connected { client, generation, read, swap, write, sweep })
    }

    /// Tells the server to stop what runs on a connection.
    async fn cancel(&self, client: &Client) -> Result<(), tokio_postgres::Error> {
        let token = client.cancel_token();
        if let Some(tls) = &self.tls {
            return token.cancel_query(tls.clone()).await;
        }
        token.cancel_query(NoTls).await
    }

    /// Connects, and drives the connection until it ends.
    async fn open(self: &Arc<Self>, config: &Config) -> Result<Client, StoreError> {
        macro_rules! open_with {
            ($tls:expr) => {{
                let (client, connection) =
                    config.connect($tls).await.map_err(|error| not_connected(&error))?;
                let counters = self.counters.clone();
                self.runtime.spawn(async move {
                    // Its end is seen by the next statement.
                    let _ = connection.await;
                    counters.disconnects.add(1);
                });
                client
            }};
        }
        if let Some(tls) = &self.tls {
            return Ok(open_with!(tls.clone()));
        }
        Ok(open_with!(NoTls))
    }
}

/// What all servers said, each by its name.
fn one_error(failures: &[(String, StoreError)]) -> StoreError {
    match failures {
        [] => StoreError::new(StoreErrorKind::Unreachable, "the URL names no server"),
        // The kind is said once.
        [(name, error)] => StoreError::new(error.kind(), format!("{name}: {}", error.detail())),
        [.., (_, last)] => {
            let each = failures.iter().map(|(name, error)| format!("{name}: {error}"));
            StoreError::new(last.kind(), each.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Reads the certificates that a URL names.
#[cfg(feature = "tls")]
pub(crate) fn tls(url: &PostgresUrl) -> Result<Option<Tls>, StoreError> {
    if !url.uses_tls() {
        return Ok(None);
    }
    let config = tidegate::store_kit::client_config(url.ca.as_deref(), url.own_files())
        .map_err(|why| StoreError::new(StoreErrorKind::BadRequest, bad_file(&why)))?;
    Ok(Some(tokio_postgres_rustls::MakeRustlsConnect::new((*config).clone())))
}

/// Says `sslrootcert`, `sslcert` or `sslkey`, as these URLs do.
#[cfg(feature = "tls")]
fn bad_file(why: &str) -> String {
    let (name, rest) = why.split_once(": ").unwrap_or(("", why));
    let name = if name == "ca" { "rootcert" } else { name };
    format!("store URL, ssl{name}: {}", rest.replace("?ca=", "sslrootcert="))
}

#[cfg(not(feature = "tls"))]
pub(crate) fn tls(url: &PostgresUrl) -> Result<Option<Tls>, StoreError> {
    if url.uses_tls() {
        let why = "store URL, sslmode: this build has no TLS (feature `tls`)";
        return Err(StoreError::new(StoreErrorKind::BadRequest, why));
    }
    Ok(None)
}

/// A connection while it is used. Dropped before [`Lent::give_back`], because its time was up or a statement failed, it is
/// closed, and what still runs on it is cancelled.
pub(crate) struct Lent {
    pool: Pool,
    connected: Option<Connected>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Lent {
    pub(crate) fn get(&self) -> Option<(&Client, &Connected)> {
        self.connected.as_ref().map(|connected| (&connected.client, connected))
    }

    /// It is idle, and can be used again.
    pub(crate) fn give_back(mut self) {
        if let Some(connected) = self.connected.take()
            && self.pool.shared.is_usable(&connected)
        {
            self.pool.shared.lock_idle().push(connected);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(connected), permit) = (self.connected.take(), self.permit.take()) else { return };
        if connected.client.is_closed() {
            return;
        }
        // The server would run the statement to its end: it is told to stop, and the room is free when it has.
        let shared = self.pool.shared.clone();
        self.pool.shared.runtime.spawn(async move {
            let _ = timeout(CONNECT_DEADLINE, shared.cancel(&connected.client)).await;
            drop((connected, permit));
        });
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.shared.url).finish()
    }
}
