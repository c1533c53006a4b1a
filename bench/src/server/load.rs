//! The load: clients that each wait for an answer before they ask again, or that ask by the clock.

mod grpc;
mod http;
mod resp;

use std::fmt;
use std::time::{Duration, Instant};

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
        Self::drive(lines, None, span).await
    }

    /// So many exchanges a second in all, whether or not the last ones were answered in time; a latency counts from
    /// when it was due.
    pub(crate) async fn paced(lines: Vec<Line>, rate: f64, span: Duration) -> Self {
        Self::drive(lines, Some(Duration::from_secs_f64(1.0 / rate)), span).await
    }

    async fn drive(lines: Vec<Line>, every: Option<Duration>, span: Duration) -> Self {
        let (start, clients) = (Instant::now(), lines.len());
        let run = |(client, mut line): (usize, Line)| async move {
            let (mut count, mut us) = (0, Vec::new());
            for number in 0.. {
                let turn = u32::try_from(number * clients + client).expect("a short run");
                let due = every.map(|every| start + every * turn);
                // The timer is too coarse; the load has a processor for itself.
                while due.is_some_and(|due| Instant::now() < due) {
                    tokio::task::yield_now().await;
                }
                let since = due.unwrap_or_else(Instant::now);
                if since.duration_since(start) > span {
                    break;
                }
                count += line.exchange(number).await;
                us.push(since.elapsed().as_secs_f64() * 1e6);
            }
            (count, us)
        };
        let tasks: Vec<_> = lines.into_iter().enumerate().map(|it| tokio::spawn(run(it))).collect();
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
