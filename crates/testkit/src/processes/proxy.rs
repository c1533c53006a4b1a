//! A TCP proxy in front of any server, with faults that are switched while it runs.

use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::faults::Faults;
use super::proxy_line::connection;
use super::scratch::free_port;
use super::{DEADLINE, POLL_EVERY, wait_until};

/// Further connections wait in the kernel's accept queue.
const MAX_CONNECTIONS: usize = 256;

const PORT_TRIES: usize = 10;
const BIND_TRIES: usize = 1_000;

/// The state that the handle shares with the connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FaultState {
    pub(super) faults: Faults,
    /// How often faults were set. A change restarts the byte counts.
    pub(super) generation: u64,
    /// How often all connections were reset.
    pub(super) resets: u64,
}

/// Listens on its own loopback port, in its own thread. Dropping it closes all its connections.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    state: Option<watch::Sender<FaultState>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    is_listening: AtomicBool,
    accepted: AtomicUsize,
    room: Arc<Semaphore>,
}

impl FaultProxy {
    /// Starts a proxy to `127.0.0.1:port`, without faults. The server need not listen yet.
    pub fn start(port: u16) -> Self {
        Self::start_before(([127, 0, 0, 1], port).into())
    }

    pub fn start_before(target: SocketAddr) -> Self {
        let listener = (0..PORT_TRIES)
            .find_map(|_| StdListener::bind(("127.0.0.1", free_port())).ok())
            .expect("a free port for the proxy");
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            target,
            is_listening: AtomicBool::new(true),
            accepted: AtomicUsize::new(0),
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        });
        let (sender, state) = watch::channel(FaultState::default());
        let thread = thread::spawn({
            let shared = shared.clone();
            move || run(listener, &shared, state)
        });
        Self { port, shared, state: Some(sender), thread: Some(thread) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Replaces all faults, effective at once, except that bytes in transit keep their delay.
    pub fn set(&self, faults: Faults) {
        self.update(|state| {
            state.faults = faults;
            state.generation += 1;
        });
        wait_until("the proxy to listen, or not to", DEADLINE, || {
            self.shared.is_listening.load(Ordering::Acquire) != faults.refuse
                && (!faults.refuse || self.refuses())
        });
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.set(Faults::default());
    }

    /// Resets all open connections once. New connections are not affected.
    pub fn reset_connections(&self) {
        self.update(|state| state.resets += 1);
    }

    /// The number of connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Acquire)
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        MAX_CONNECTIONS - self.shared.room.available_permits()
    }

    /// Whether a connect fails. Between its fork and exec a child process still holds the closed listener, and for that
    /// millisecond the kernel accepts connections.
    fn refuses(&self) -> bool {
        StdStream::connect(("127.0.0.1", self.port)).is_err()
    }

    fn update(&self, change: impl FnOnce(&mut FaultState)) {
        self.state.as_ref().unwrap().send_modify(change);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // The thread ends when the sender is dropped.
        self.state = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|end| end.is_ok()), "the proxy panicked");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(listener: StdListener, shared: &Arc<Shared>, mut state: watch::Receiver<FaultState>) {
    let address = listener.local_addr().unwrap();
    let mut listener = TcpListener::from_std(listener).unwrap();
    let mut connections = JoinSet::new();
    loop {
        let is_over = accept_until_refused(&listener, shared, &mut state, &mut connections).await;
        drop(listener);
        shared.is_listening.store(false, Ordering::Release);
        if is_over || state.wait_for(|state| !state.faults.refuse).await.is_err() {
            return;
        }
        listener = bind_again(address).await;
        shared.is_listening.store(true, Ordering::Release);
    }
}

/// Retries, because a child between its fork and exec may still hold the old listener, and another process may probe the
/// port.
async fn bind_again(address: SocketAddr) -> TcpListener {
    for _ in 0..BIND_TRIES {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(_) => sleep(POLL_EVERY).await,
        }
    }
    panic!("another process took {address}")
}

/// Accepts connections until the `refuse` fault is set. Returns whether the handle was dropped.
async fn accept_until_refused(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    state: &mut watch::Receiver<FaultState>,
    connections: &mut JoinSet<()>,
) -> bool {
    // `state` is borrowed while it waits.
    let received = state.clone();
    let refused = state.wait_for(|state| state.faults.refuse);
    tokio::pin!(refused);
    loop {
        tokio::select! {
            refused = &mut refused => return refused.is_err(),
            Ok((client, _)) = listener.accept(), if shared.room.available_permits() > 0 => {
                let permit = shared.room.clone().try_acquire_owned().unwrap();
                shared.accepted.fetch_add(1, Ordering::AcqRel);
                connections.spawn(connection(client, shared.target, received.clone(), permit));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
