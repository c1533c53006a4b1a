//! The load: clients that wait for each answer before they send the next request, or that send at a fixed rate.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// One client. It has one exchange in flight at a time.
pub trait Client: Send + 'static {
    /// One exchange: sends one request, or one pipeline, and reads the answers. Returns the number of requests.
    fn exchange(&mut self, number: usize) -> impl Future<Output = usize> + Send;
}

/// The results of a run.
pub struct Load {
    count: usize,
    took: Duration,
    /// The latency of each exchange in microseconds, ascending.
    us: Vec<f64>,
}

impl Load {
    /// Closed loop: each client sends the next request as soon as it has the answer.
    pub async fn closed<C: Client>(clients: Vec<C>, span: Duration) -> Self {
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
    pub async fn paced<C: Client>(clients: Vec<C>, rate: f64, span: Duration) -> Self {
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

    pub const fn count(&self) -> usize {
        self.count
    }

    /// Requests per second.
    pub fn rate(&self) -> f64 {
        self.count as f64 / self.took.as_secs_f64()
    }

    pub fn at(&self, quantile: f64) -> f64 {
        self.us[((self.us.len() - 1) as f64 * quantile).round() as usize]
    }
}

/// Runs the exchanges of one client one after another, until `next` returns `None`. Returns the number of requests, and
/// the microseconds from due time to answer of each exchange.
async fn exchanges(
    mut client: impl Client,
    mut next: impl AsyncFnMut() -> Option<Instant>,
) -> (usize, Vec<f64>) {
    let (mut count, mut us) = (0, Vec::new());
    while let Some(due) = next().await {
        count += client.exchange(us.len()).await;
        us.push(due.elapsed().as_secs_f64() * 1e6);
    }
    (count, us)
}
