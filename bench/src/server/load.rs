//! The load: clients that wait for each answer before they send the next request, or that send at a fixed rate.

mod grpc;
mod http;
mod resp;

use std::fmt;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::contender::Contender;

/// The protocol, and for RESP the number of commands per pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wire {
    Resp(usize),
    Http,
    Grpc,
}

impl Wire {
    pub(crate) const fn door(self) -> &'static str {
        match self {
            Self::Resp(_) => "resp",
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resp(pipeline) => {
                write!(f, "RESP, {CONNECTIONS} connections, pipeline {pipeline}")
            }
            Self::Http => write!(f, "HTTP, {CONNECTIONS} connections"),
            Self::Grpc => write!(f, "gRPC, 4 connections, 64 in flight on each"),
        }
    }
}

const CONNECTIONS: usize = 50;
/// The number of keys.
const KEYS: usize = 100_000;
/// Requests that a client builds in advance, so that building them is not measured.
const PREPARED: usize = 256;

/// A limit that no run uses up: burst, units, and seconds.
pub(crate) const PLENTY: [u32; 3] = [1_000_000, 1_000_000, 1];

/// One client. It has one exchange in flight at a time.
pub(crate) enum Client {
    Resp(resp::Client),
    Http(http::Client),
    Grpc(grpc::Client),
}

impl Client {
    /// One exchange: sends one request, or one pipeline, and reads the answers. Returns the number of requests.
    async fn exchange(&mut self, number: usize) -> usize {
        match self {
            Self::Resp(client) => client.exchange(number).await,
            Self::Http(client) => client.exchange(number).await,
            Self::Grpc(client) => client.exchange(number).await,
        }
    }
}

/// The results of a run.
pub(crate) struct Load {
    count: usize,
    took: Duration,
    /// The latency of each exchange in microseconds, ascending.
    us: Vec<f64>,
}

impl Load {
    pub(crate) async fn clients(contender: &Contender, wire: Wire) -> Vec<Client> {
        let mut clients = Vec::new();
        match wire {
            Wire::Resp(pipeline) => {
                for number in 0..CONNECTIONS {
                    clients
                        .push(Client::Resp(resp::Client::open(contender, number, pipeline).await));
                }
            }
            Wire::Http => {
                for number in 0..CONNECTIONS {
                    clients.push(Client::Http(http::Client::open(contender, number).await));
                }
            }
            Wire::Grpc => clients
                .extend(grpc::Client::open_all(contender).await.into_iter().map(Client::Grpc)),
        }
        clients
    }

    /// Closed loop: each client sends the next request as soon as it has the answer.
    pub(crate) async fn closed(clients: Vec<Client>, span: Duration) -> Self {
        let start = Instant::now();
        let at_once = move |client| {
            exchanges(client, async move || {
                let now = Instant::now();
                (now.duration_since(start) <= span).then_some(now)
            })
        };
        let tasks = clients.into_iter().map(|client| tokio::spawn(at_once(client))).collect();
        Self::of(start, tasks).await
    }

    /// Open loop: `rate` exchanges a second in total, whether or not the last ones were answered. Latency is measured
    /// from the time when the exchange was due.
    pub(crate) async fn paced(clients: Vec<Client>, rate: f64, span: Duration) -> Self {
        let every = Duration::from_secs_f64(1.0 / rate);
        let (start, mut turns, mut tasks) = (Instant::now(), Vec::new(), Vec::new());
        for client in clients {
            let (turn, mut due) = mpsc::unbounded_channel();
            turns.push(turn);
            tasks.push(tokio::spawn(exchanges(client, async move || due.recv().await)));
        }
        let mut due = start;
        for turn in turns.iter().cycle() {
            // Busy-waits, because the timer is too coarse and the load has its own processor. Only this task reads the
            // clock: if all clients did, they would delay each other's answers.
            while Instant::now() < due {
                tokio::task::yield_now().await;
            }
            turn.send(due).expect("a client");
            due += every;
            if due.duration_since(start) > span {
                break;
            }
        }
        drop(turns);
        Self::of(start, tasks).await
    }

    async fn of(start: Instant, tasks: Vec<JoinHandle<(usize, Vec<f64>)>>) -> Self {
        let (mut count, mut us) = (0, Vec::new());
        for task in tasks {
            let (more, times) = task.await.expect("a client");
            count += more;
            us.extend(times);
        }
        us.sort_by(f64::total_cmp);
        Self { count, took: start.elapsed(), us }
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.count as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn at(&self, quantile: f64) -> f64 {
        self.us[((self.us.len() - 1) as f64 * quantile).round() as usize]
    }
}

/// Runs the exchanges of one client one after another, until `next` returns `None`. Returns the number of requests, and
/// the microseconds from due time to answer of each exchange.
async fn exchanges(
    mut client: Client,
    mut next: impl AsyncFnMut() -> Option<Instant>,
) -> (usize, Vec<f64>) {
    let (mut count, mut us) = (0, Vec::new());
    while let Some(due) = next().await {
        count += client.exchange(us.len()).await;
        us.push(due.elapsed().as_secs_f64() * 1e6);
    }
    (count, us)
}

/// Checks each of this many keys once.
pub(crate) async fn fill(contender: &Contender, keys: usize) {
    resp::fill(contender, keys).await;
}

/// A key of 24 bytes, as in the embedded benchmark.
pub(crate) fn key(number: usize) -> String {
    format!("user-{number:019}")
}

/// The keys of a client: spread over all keys, and different from those of other clients.
pub(crate) fn keys_of(client: usize) -> impl Iterator<Item = String> {
    (0..).map(move |turn: usize| {
        let number = client * PREPARED * 64 + turn;
        key((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % KEYS)
    })
}
