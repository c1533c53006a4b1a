//! The load: clients that each wait for an answer before they ask again, or that ask by the clock.

mod grpc;
mod http;
mod resp;

use std::fmt;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::contender::Contender;

/// What is spoken, and for RESP how many commands are sent at once.
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
/// Keys that take turns.
const KEYS: usize = 100_000;
/// Requests that a client has at hand, so that it need not make them while it measures.
const AT_HAND: usize = 256;

/// A limit that no run uses up: burst, units, and seconds.
pub(crate) const PLENTY: [u32; 3] = [1_000_000, 1_000_000, 1];

/// One client. It has one exchange under way at a time.
pub(crate) enum Line {
    Resp(resp::Line),
    Http(http::Line),
    Grpc(grpc::Line),
}

impl Line {
    /// One exchange, of as many requests as are sent at once.
    async fn exchange(&mut self, number: usize) -> usize {
        match self {
            Self::Resp(line) => line.exchange(number).await,
            Self::Http(line) => line.exchange(number).await,
            Self::Grpc(line) => line.exchange(number).await,
        }
    }
}

/// What came of it.
pub(crate) struct Load {
    count: usize,
    took: Duration,
    /// Of each exchange, in ascending order.
    us: Vec<f64>,
}

impl Load {
    pub(crate) async fn lines(contender: &Contender, wire: Wire) -> Vec<Line> {
        let mut lines = Vec::new();
        match wire {
            Wire::Resp(pipeline) => {
                for number in 0..CONNECTIONS {
                    lines.push(Line::Resp(resp::Line::open(contender, number, pipeline).await));
                }
            }
            Wire::Http => {
                for number in 0..CONNECTIONS {
                    lines.push(Line::Http(http::Line::open(contender, number).await));
                }
            }
            Wire::Grpc => {
                lines.extend(grpc::Line::open_all(contender).await.into_iter().map(Line::Grpc))
            }
        }
        lines
    }

    /// Each asks again as soon as it was answered.
    pub(crate) async fn closed(lines: Vec<Line>, span: Duration) -> Self {
        let start = Instant::now();
        let at_once = move |line| {
            exchanges(line, async move || {
                let now = Instant::now();
                (now.duration_since(start) <= span).then_some(now)
            })
        };
        let tasks = lines.into_iter().map(|line| tokio::spawn(at_once(line))).collect();
        Self::of(start, tasks).await
    }

    /// So many exchanges a second in all, whether or not the last ones were answered in time; a latency counts from
    /// when it was due.
    pub(crate) async fn paced(lines: Vec<Line>, rate: f64, span: Duration) -> Self {
        let every = Duration::from_secs_f64(1.0 / rate);
        let (start, mut turns, mut tasks) = (Instant::now(), Vec::new(), Vec::new());
        for line in lines {
            let (turn, mut due) = mpsc::unbounded_channel();
            turns.push(turn);
            tasks.push(tokio::spawn(exchanges(line, async move || due.recv().await)));
        }
        let mut due = start;
        for turn in turns.iter().cycle() {
            // The timer is too coarse, and the load has a processor for itself. Only one looks at the clock: if all
            // lines did, they would keep each other from their answers.
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

/// The exchanges of one client, one after another, until there is no next; and how many microseconds each took since
/// it was due.
async fn exchanges(
    mut line: Line,
    mut next: impl AsyncFnMut() -> Option<Instant>,
) -> (usize, Vec<f64>) {
    let (mut count, mut us) = (0, Vec::new());
    while let Some(due) = next().await {
        count += line.exchange(us.len()).await;
        us.push(due.elapsed().as_secs_f64() * 1e6);
    }
    (count, us)
}

/// Asks for so many keys, each once.
pub(crate) async fn fill(contender: &Contender, keys: usize) {
    resp::fill(contender, keys).await;
}

/// A key of 24 bytes, as the embedded benchmark has them.
pub(crate) fn key(number: usize) -> String {
    format!("user-{number:019}")
}

/// Which keys a client asks for: all over, and others than its neighbours.
pub(crate) fn keys_of(client: usize) -> impl Iterator<Item = String> {
    (0..).map(move |turn: usize| {
        let number = client * AT_HAND * 64 + turn;
        key((number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % KEYS)
    })
}
