//! The load: people who come when they come, have no patience, and of whom many try again.

mod arrivals;
mod client;
mod run;

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use arrivals::Arrival;
pub(crate) use client::Client;
pub(crate) use run::{Attempt, Figures, Outcome, Run};

/// How long somebody waits for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// The same people come in every run.
const SEED: u64 = 2026;

/// So many a second, whether or not the last ones were answered.
pub(crate) async fn open(client: &Client, rate: f64, span: Duration) -> Run {
    let start = Instant::now();
    let mut people = JoinSet::new();
    for arrival in arrivals::of(SEED, rate, span) {
        sleep_until(start + arrival.due).await;
        people.spawn(visit(client.clone(), arrival, start, span));
    }
    let mut run = Run::new(span);
    while let Some(visited) = people.join_next().await {
        run.add(visited.unwrap_or_default());
    }
    run
}

/// So many at once, each asking again as soon as it was answered.
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
        // Whoever asks again is somebody new.
        attempts.unwrap_or_default().into_iter().for_each(|it| run.add(vec![it]));
    }
    run
}

/// Comes, and if it is of that kind comes once more: at once after silence or an error, and after a refusal when it was
/// told to.
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

/// Its time counts from when it was due, not from when the load got round to it.
async fn attempt(client: &Client, number: u32, start: Instant, due: Duration) -> Attempt {
    let path = format!("/customers/{}", number % 1000);
    let answer = tokio::time::timeout_at(start + due + PATIENCE, client.get(&path)).await;
    Attempt { due, took: start.elapsed() - due, outcome: answer.unwrap_or(Outcome::TimedOut) }
}
