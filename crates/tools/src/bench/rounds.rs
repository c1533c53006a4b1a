//! The run: warm up, then one round after another, with the endpoints in turn.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::config::{BenchConfig, Phase};
use super::endpoint::Endpoint;
use super::load::{LoadGenerator, Round};
use crate::Failure;

/// An endpoint with its connections, and what was measured of it.
pub(super) struct Contender {
    pub(super) endpoint: Endpoint,
    load: LoadGenerator,
    pub(super) rounds: Vec<Round>,
}

/// Measures all endpoints. A signal ends the run early, with the rounds measured so far; then the second value is true.
pub(super) async fn measure(config: &BenchConfig) -> Result<(Vec<Contender>, bool), Failure> {
    let mut stop = stop_signals()?;
    let stopped = || Failure::new("stopped before anything was measured");
    let mut contenders = tokio::select! {
        prepared = prepare(config) => prepared?,
        _ = stop.wait_for(|stop| *stop) => return Err(stopped()),
    };
    let warm_up = Phase { duration: config.warm_up, requests: None, ..config.phase };
    if !config.warm_up.is_zero() {
        for contender in &mut contenders {
            let label = format!("warming up {}", contender.endpoint.name);
            contender.load.drive(warm_up, &mut stop, &label).await;
        }
    }
    for round in 0..config.rounds {
        for index in order(round, contenders.len()) {
            if *stop.borrow() {
                break;
            }
            contenders[index].measure(share(config.phase, round, config.rounds), &mut stop).await;
        }
    }
    if contenders.iter().any(|contender| contender.rounds.is_empty()) {
        return Err(stopped());
    }
    let was_stopped = *stop.borrow();
    Ok((contenders, was_stopped))
}

/// All endpoints, probed and connected.
async fn prepare(config: &BenchConfig) -> Result<Vec<Contender>, Failure> {
    let mut contenders = Vec::new();
    for endpoint in Endpoint::all(config).await? {
        let load = LoadGenerator::new(endpoint.connect(config).await?, config.keys.clone());
        contenders.push(Contender { endpoint, load, rounds: Vec::new() });
    }
    Ok(contenders)
}

impl Contender {
    async fn measure(&mut self, phase: Phase, stop: &mut watch::Receiver<bool>) {
        let before = self.endpoint.cpu();
        let round = self.load.drive(phase, stop, &self.endpoint.name).await;
        let cpu =
            self.endpoint.cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
        self.rounds.push(Round { cpu, ..round });
    }
}

/// The order of the endpoints: the last of a round is the first of the next, so that a machine that becomes slower or
/// faster does so for all of them.
fn order(round: u32, endpoints: usize) -> impl Iterator<Item = usize> {
    (0..endpoints)
        .map(move |index| if round.is_multiple_of(2) { index } else { endpoints - 1 - index })
}

/// The phase of one round.
fn share(whole: Phase, round: u32, rounds: u32) -> Phase {
    let until = |requests: u64, round: u32| {
        let part = u128::from(requests) * u128::from(round) / u128::from(rounds);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let requests = whole.requests.map(|all| until(all, round + 1) - until(all, round));
    Phase { duration: whole.duration / rounds, requests, rate: whole.rate }
}

/// Turns true on SIGINT, SIGTERM or SIGHUP.
fn stop_signals() -> Result<watch::Receiver<bool>, Failure> {
    let on = |kind| {
        signal(kind).map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
    };
    let (mut interrupt, mut terminate, mut hangup) =
        (on(SignalKind::interrupt())?, on(SignalKind::terminate())?, on(SignalKind::hangup())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        sender.send_replace(true);
        // Receivers see the value as long as the sender lives.
        sender.closed().await;
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_endpoint_changes_each_round() {
        let orders = [0, 1, 2].map(|round| order(round, 2).collect::<Vec<_>>());
        assert_eq!(orders, [[0, 1], [1, 0], [0, 1]]);
        assert_eq!(order(1, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_rounds_add_up_to_all_requests() {
        for (requests, rounds) in [(1, 1), (5, 5), (1003, 5), (u64::MAX, 100)] {
            let whole =
                Phase { duration: Duration::from_secs(1), requests: Some(requests), rate: None };
            let parts = (0..rounds).filter_map(|round| share(whole, round, rounds).requests);
            let parts: Vec<u64> = parts.collect();
            assert_eq!(parts.iter().sum::<u64>(), requests);
            assert!(parts.iter().all(|part| *part > 0));
        }
    }
}
