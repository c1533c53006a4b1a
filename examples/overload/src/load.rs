//! The load: clients that arrive independently, time out after a second, and often retry.

mod arrivals;
mod client;
mod run;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use arrivals::Arrival;
pub(crate) use client::{BOTS, Client, PEOPLE};
pub(crate) use run::{Attempt, Figures, Outcome, Run};

/// How long a client waits for an answer.
pub(crate) const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Open loop: `rate` clients a second, whether or not the last ones were answered.
pub(crate) async fn open(client: &Client, rate: f64, span: Duration) -> Run {
    let start = Instant::now();
    let mut people = JoinSet::new();
    for arrival in arrivals::of(client.crowd.seed, rate, span) {
        sleep_until(start + arrival.due).await;
        people.spawn(visit(client.clone(), arrival, start, span));
    }
    let mut run = Run::new(span);
    while let Some(visited) = people.join_next().await {
        run.add(visited.unwrap_or_default());
    }
    run
}

/// Closed loop: `people` clients at once, each sending the next request as soon as it has the answer.
pub(crate) async fn closed(client: &Client, people: u32, span: Duration) -> Run {
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for number in 0..people {
        let client = client.clone();
        callers.spawn(async move {
            let mut attempts = Vec::new();
            while start.elapsed() < span {
                attempts.push(attempt(&client, number, start, start.elapsed()).await);
            }
            attempts
        });
    }
    let mut run = Run::new(span);
    while let Some(attempts) = callers.join_next().await {
        // Every request counts as a new client.
        attempts.unwrap_or_default().into_iter().for_each(|it| run.add(vec![it]));
    }
    run
}

/// One client. If it is persistent it retries once: immediately after a timeout or an error, after a refusal at the time
/// of `Retry-After`.
async fn visit(client: Client, arrival: Arrival, start: Instant, span: Duration) -> Vec<Attempt> {
    let first = attempt(&client, arrival.number, start, arrival.due).await;
    let mut attempts = vec![first];
    let again = first.due + first.took + first.outcome.wait();
    if arrival.is_persistent && first.outcome != Outcome::Good && again < span {
        sleep_until(start + again).await;
        attempts.push(attempt(&client, arrival.number, start, again).await);
    }
    attempts
}

/// Sends one request. Its time is measured from when it was due, not from when the load sent it.
async fn attempt(client: &Client, number: u32, start: Instant, due: Duration) -> Attempt {
    let answer = tokio::time::timeout_at(start + due + CLIENT_TIMEOUT, client.get(number)).await;
    Attempt { due, took: start.elapsed() - due, outcome: answer.unwrap_or(Outcome::TimedOut) }
}
