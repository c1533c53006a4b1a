//! The load: clients that send again after each reply, or when the next request is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::client::Client;
use super::config::Phase;
use super::error::{ErrorKind, RequestError};
use super::keys::Keys;
use super::pacer::Pacer;
use super::stats::{ShardedStats, Stats};
use crate::output::grouped;
use crate::progress::Progress;

/// For one batch.
const TIMEOUT: Duration = Duration::from_secs(10);
/// After the end, for requests that were due and had to wait: their waiting counts.
const GRACE: Duration = Duration::from_secs(1);
/// Before connecting again after a failure.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// What was measured in one phase.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) stats: Stats,
    pub(super) took: Duration,
    /// Requests that were due and never sent, because all clients were busy.
    pub(super) unsent: u64,
    /// CPU time of the local server meanwhile.
    pub(super) cpu: Option<Duration>,
}

/// What all clients share during a phase.
#[derive(Debug)]
struct PhaseState {
    keys: Arc<Keys>,
    stats: ShardedStats,
    /// The number of the first request: each phase continues with the keys.
    first: u64,
    next: AtomicU64,
    /// Lowered when the time is over.
    end: AtomicU64,
    is_over: AtomicBool,
    pacer: Option<Pacer>,
}

impl PhaseState {
    /// The next requests: the number of the first, and how many, at most `count`.
    fn take(&self, count: u64) -> Option<(u64, u64)> {
        if self.is_over.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.next.fetch_add(count, Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        (number < end).then(|| (number, count.min(end - number)))
    }

    fn taken(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.end.load(Ordering::Relaxed))
    }

    /// Makes nothing more due; without a pacer, nothing more is sent.
    fn end(&self) {
        match &self.pacer {
            Some(pacer) => {
                let due = pacer.due_by(Instant::now());
                self.end.fetch_min(due, Ordering::Relaxed);
            }
            None => self.is_over.store(true, Ordering::Relaxed),
        }
    }

    /// Sends nothing more, and returns how many due requests were not sent.
    fn stop(&self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(pacer) = &self.pacer else { return 0 };
        pacer.stop();
        self.end.load(Ordering::Relaxed).saturating_sub(self.taken())
    }

    async fn drive(&self, index: usize, client: &mut Client) {
        let batch_size = client.batch_size();
        loop {
            if let Some(pacer) = &self.pacer
                && !pacer.wait().await
            {
                return;
            }
            let Some((number, count)) = self.take(batch_size) else { return };
            let since = match &self.pacer {
                Some(pacer) => pacer.due_at(number),
                None => Instant::now(),
            };
            let done = in_time(client.send(&self.keys, self.first + number, count)).await;
            let took = since.elapsed();
            match done {
                Ok(result) => {
                    // Embedded decisions are timed together, and each took its share.
                    let shares = if matches!(client, Client::Embedded(_)) { count } else { 1 };
                    let ns = took.as_nanos() / u128::from(shares.max(1));
                    let ns = u64::try_from(ns).unwrap_or(u64::MAX);
                    self.stats.shard(index).answered(result, ns);
                }
                Err(error) => {
                    client.reset();
                    let is_unreachable = error.kind == ErrorKind::Connect;
                    self.stats.shard(index).failed(error, count);
                    if is_unreachable {
                        sleep(RECONNECT_PAUSE).await;
                    }
                }
            }
            if matches!(client, Client::Embedded(_)) {
                // It never waits, and timers need the thread too.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Fails after `TIMEOUT`.
pub(super) async fn in_time<T>(
    exchange: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let late = || RequestError::new(ErrorKind::Timeout, format!("no answer within {TIMEOUT:?}"));
    tokio::time::timeout(TIMEOUT, exchange).await.unwrap_or_else(|_| Err(late()))
}

/// The clients, and the number of their next request.
#[derive(Debug)]
pub(super) struct LoadGenerator {
    clients: Vec<Client>,
    keys: Arc<Keys>,
    next: u64,
}

impl LoadGenerator {
    pub(super) const fn new(clients: Vec<Client>, keys: Arc<Keys>) -> Self {
        Self { clients, keys, next: 0 }
    }

    /// Runs a phase until it is over or `stop` turns true, and waits for the last replies.
    pub(super) async fn drive(
        &mut self,
        phase: Phase,
        stop: &mut watch::Receiver<bool>,
        label: &str,
    ) -> Round {
        let start = Instant::now();
        let batch_size = self.clients.first().map_or(1, Client::batch_size);
        let state = Arc::new(PhaseState {
            keys: self.keys.clone(),
            stats: ShardedStats::default(),
            first: self.next,
            next: AtomicU64::new(0),
            end: AtomicU64::new(phase.requests.unwrap_or(u64::MAX / 2)),
            is_over: AtomicBool::new(false),
            pacer: phase.rate.map(|rate| Pacer::new(rate, batch_size, start)),
        });
        let count = self.clients.len();
        if state.pacer.is_some() {
            let state = state.clone();
            tokio::task::spawn_blocking(move || {
                if let Some(pacer) = &state.pacer {
                    pacer.run(&state.end, count);
                }
            });
        }
        let mut running = JoinSet::new();
        for (index, mut client) in self.clients.drain(..).enumerate() {
            let state = state.clone();
            running.spawn(async move {
                state.drive(index, &mut client).await;
                client
            });
        }
        let progress = Progress::start();
        let mut has_ended = false;
        tokio::select! {
            () = join_all(&mut running, &mut self.clients) => has_ended = true,
            () = sleep(phase.duration) => {}
            _ = stop.wait_for(|stop| *stop) => {}
            () = show_progress(&progress, label, &state.stats) => {}
        }
        if !has_ended {
            state.end();
            // Requests that are later than that are given up.
            let _ = timeout(GRACE, join_all(&mut running, &mut self.clients)).await;
        }
        let unsent = state.stop();
        join_all(&mut running, &mut self.clients).await;
        progress.done();
        self.next += state.taken();
        Round { stats: state.stats.total(), took: start.elapsed(), unsent, cpu: None }
    }
}

/// Takes all clients back.
async fn join_all(running: &mut JoinSet<Client>, clients: &mut Vec<Client>) {
    while let Some(client) = running.join_next().await {
        clients.extend(client.ok());
    }
}

async fn show_progress(progress: &Progress, label: &str, stats: &ShardedStats) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    let (mut last_us, mut before) = (0, 0);
    loop {
        second.tick().await;
        let (requests, errors) = stats.so_far();
        progress.show(|us| {
            // The rate since the last line, which shows a server that has stalled.
            let rate = grouped((requests - before) * 1_000_000 / (us - last_us).max(1));
            (last_us, before) = (us, requests);
            let failed =
                if errors > 0 { format!(", {} errors", grouped(errors)) } else { String::new() };
            let (seconds, requests) = (us / 1_000_000, grouped(requests));
            format!("{label}: {seconds} s, {requests} requests, {rate}/s{failed}")
        });
    }
}
