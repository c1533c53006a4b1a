//! The load of one process on all doors of all nodes, at a fixed rate whether or not the last requests were answered.
//!
//! Requests are due every half millisecond, and their latency counts from then: what waits for a slow answer, or for
//! this process to get a processor, is not left out.

mod client;
mod queue;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet};

use crate::fleet::Ports;
use crate::tally::Tally;
use crate::traffic::{Ask, Traffic};
use client::Client;
use queue::Queue;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Door {
    Http,
    Resp,
    Grpc,
}

impl Door {
    pub(crate) const ALL: [Self; 3] = [Self::Http, Self::Resp, Self::Grpc];

    /// Requests in one exchange.
    const fn pipeline(self) -> usize {
        if matches!(self, Self::Resp) { 16 } else { 1 }
    }

    /// Exchanges in flight on each node.
    const fn clients(self) -> usize {
        if matches!(self, Self::Resp) { 8 } else { 64 }
    }
}

/// How often requests are due.
const TICK: Duration = Duration::from_micros(500);
/// How long the last answers may take.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// Sends `rate` requests a second, a third to each door. Counts them in `answered` as well, for whoever watches.
pub(crate) fn run(nodes: &[Ports], rate: f64, span: Duration, answered: &Arc<AtomicU64>) -> Tally {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let tally = Rc::new(RefCell::new(Tally::default()));
    LocalSet::new().block_on(&runtime, drive(nodes, rate, span, &tally, answered));
    tally.take()
}

async fn drive(
    nodes: &[Ports],
    rate: f64,
    span: Duration,
    tally: &Rc<RefCell<Tally>>,
    answered: &Arc<AtomicU64>,
) {
    let (mut clients, mut doors) = (JoinSet::new(), Vec::new());
    for door in Door::ALL {
        let queues: Vec<Rc<Queue>> = nodes.iter().map(|_| Rc::default()).collect();
        for (ports, queue) in nodes.iter().zip(&queues) {
            for client in Client::open_all(door, *ports).await.expect("a node that answers") {
                let traffic = Traffic::new(clients.len());
                let (queue, tally) = (queue.clone(), tally.clone());
                clients.spawn_local(work(client, traffic, queue, tally, answered.clone()));
            }
        }
        doors.push((door, queues));
    }
    let start = Instant::now();
    let scheduled = schedule(&doors, start, rate / Door::ALL.len() as f64, span).await;
    let all = async { while clients.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST_ANSWERS, all).await;
    let mut tally = tally.borrow_mut();
    tally.took = start.elapsed();
    for ((door, _), scheduled) in doors.iter().zip(scheduled) {
        let seen = &tally.doors[*door as usize];
        let missing = scheduled - seen.answers() - seen.errors;
        tally.failed(*door, missing, "no answer, or too many requests were waiting to be sent");
    }
}

/// Tells the clients when requests are due, nodes in turn. Returns how many that were, by door.
async fn schedule(
    doors: &[(Door, Vec<Rc<Queue>>)],
    start: Instant,
    rate_per_door: f64,
    span: Duration,
) -> Vec<u64> {
    let ticks = wake_every_tick(start, span);
    let mut exchanges = vec![0; doors.len()];
    let mut elapsed = Duration::ZERO;
    while elapsed < span {
        elapsed += TICK;
        while start.elapsed() < elapsed {
            ticks.notified().await;
        }
        for ((door, queues), count) in doors.iter().zip(&mut exchanges) {
            let due = rate_per_door * elapsed.as_secs_f64() / door.pipeline() as f64;
            while *count < due as usize {
                queues[*count % queues.len()].push(start + elapsed);
                *count += 1;
            }
        }
    }
    doors.iter().flat_map(|(_, queues)| queues).for_each(|queue| queue.close());
    let requests = |(door, count): (&(Door, _), &usize)| (door.0.pipeline() * count) as u64;
    doors.iter().zip(&exchanges).map(requests).collect()
}

/// Wakes the schedule from a thread, because tokio's timer is too coarse, and waiting busily would take a processor
/// from the servers.
fn wake_every_tick(start: Instant, span: Duration) -> Arc<Notify> {
    let ticks = Arc::new(Notify::new());
    let waking = ticks.clone();
    std::thread::spawn(move || {
        let mut next = TICK;
        while next <= span + TICK {
            std::thread::sleep(next.saturating_sub(start.elapsed()));
            waking.notify_one();
            next += TICK;
        }
    });
    ticks
}

/// The exchanges of one client, one after another.
async fn work(
    mut client: Client,
    mut traffic: Traffic,
    queue: Rc<Queue>,
    tally: Rc<RefCell<Tally>>,
    answered: Arc<AtomicU64>,
) {
    let (door, mut admits) = (client.door(), Vec::new());
    while let Some(due) = queue.next().await {
        let asks: Vec<Ask> = (0..door.pipeline()).map(|_| traffic.ask()).collect();
        admits.clear();
        match client.exchange(&asks, &mut admits).await {
            Ok(()) => {
                tally.borrow_mut().answered(door, due.elapsed(), &asks, &admits);
                answered.fetch_add(asks.len() as u64, Ordering::Relaxed);
            }
            Err(error) => {
                tally.borrow_mut().failed(door, asks.len() as u64, error);
                // What was read of the failed answer is unknown. If this fails, so does the next exchange.
                let _ = client.reopen().await;
            }
        }
    }
}
