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
use super::place::free_port;
use super::proxy_line::connection;
use super::{DEADLINE, POLL_EVERY, wait_until};

/// More wait in the kernel's queue, connected and unanswered.
const MAX_CONNECTIONS: usize = 256;

const PORT_TRIES: usize = 10;
const BIND_TRIES: usize = 1_000;

/// What the handle tells the connections.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Orders {
    pub(super) faults: Faults,
    /// How often faults were set: a way counts its bytes anew.
    pub(super) settings: u64,
    /// How often all connections were reset.
    pub(super) resets: u64,
}

/// Listens on a loopback port of its own, on a thread of its own. Dropped, all its connections end.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    orders: Option<watch::Sender<Orders>>,
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
    /// In front of `127.0.0.1:port`, without faults. Nobody needs to listen there yet.
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
        let (orders, told) = watch::channel(Orders::default());
        let thread = thread::spawn({
            let shared = shared.clone();
            move || run(listener, &shared, told)
        });
        Self { port, shared, orders: Some(orders), thread: Some(thread) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Replaces all faults. Bytes that are on their way keep the delay they have; all else holds from now on.
    pub fn set(&self, faults: Faults) {
        self.order(|orders| {
            orders.faults = faults;
            orders.settings += 1;
        });
        wait_until("the proxy to listen, or not to", DEADLINE, || {
            self.shared.is_listening.load(Ordering::Acquire) != faults.refuse
                && (!faults.refuse || self.refuses())
        });
    }

    /// No faults.
    pub fn heal(&self) {
        self.set(Faults::default());
    }

    /// Ends all connections with a RST, once; new ones are well.
    pub fn reset_connections(&self) {
        self.order(|orders| orders.resets += 1);
    }

    /// How many connections were ever accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Acquire)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        MAX_CONNECTIONS - self.shared.room.available_permits()
    }

    /// A child that was forked and has not yet become another program still has our listener open: for that
    /// millisecond the kernel accepts for nobody, though we have closed it.
    fn refuses(&self) -> bool {
        StdStream::connect(("127.0.0.1", self.port)).is_err()
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) {
        self.orders.as_ref().unwrap().send_modify(change);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        // Without a sender the thread ends.
        self.orders = None;
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|end| end.is_ok()), "the proxy panicked");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run(listener: StdListener, shared: &Arc<Shared>, mut told: watch::Receiver<Orders>) {
    let address = listener.local_addr().unwrap();
    let mut listener = TcpListener::from_std(listener).unwrap();
    let mut connections = JoinSet::new();
    loop {
        let is_over = accept_until_refused(&listener, shared, &mut told, &mut connections).await;
        drop(listener);
        shared.is_listening.store(false, Ordering::Release);
        if is_over || told.wait_for(|orders| !orders.faults.refuse).await.is_err() {
            return;
        }
        listener = bound(address).await;
        shared.is_listening.store(true, Ordering::Release);
    }
}

/// A child that is being forked may still have the old listener, and somebody else look for a free port.
async fn bound(address: SocketAddr) -> TcpListener {
    for _ in 0..BIND_TRIES {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(_) => sleep(POLL_EVERY).await,
        }
    }
    panic!("somebody else took {address}")
}

/// Whether there is nobody left to heal it.
async fn accept_until_refused(
    listener: &TcpListener,
    shared: &Arc<Shared>,
    told: &mut watch::Receiver<Orders>,
    connections: &mut JoinSet<()>,
) -> bool {
    // `told` is borrowed while it waits.
    let orders = told.clone();
    let refused = told.wait_for(|orders| orders.faults.refuse);
    tokio::pin!(refused);
    loop {
        tokio::select! {
            refused = &mut refused => return refused.is_err(),
            Ok((client, _)) = listener.accept(), if shared.room.available_permits() > 0 => {
                let place = shared.room.clone().try_acquire_owned().unwrap();
                shared.accepted.fetch_add(1, Ordering::AcqRel);
                connections.spawn(connection(client, shared.target, orders.clone(), place));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
