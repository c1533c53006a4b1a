//! The run: warm up, then each side in turn.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::load::{Load, Outcome, Stretch};
use super::plan::Plan;
use super::progress::Progress;
use super::report::Report;
use super::side::Side;
use crate::Failure;

/// What a side did in one round.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) outcome: Outcome,
    /// Of our own server, meanwhile.
    pub(super) cpu: Option<Duration>,
}

/// A side and what it did so far.
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) rounds: Vec<Round>,
}

/// A side with its connections.
struct Contender {
    side: Side,
    load: Load,
    rounds: Vec<Round>,
}

/// Measures all that the plan names, in turns. Told to stop, it ends with what it has.
pub(super) async fn measure(plan: &Plan) -> Result<Report, Failure> {
    let mut stop = stop_signals()?;
    let stopped = || Failure::new("stopped before anything was measured");
    let mut contenders = tokio::select! {
        prepared = prepare(plan) => prepared?,
        _ = stop.wait_for(|stop| *stop) => return Err(stopped()),
    };
    let warm_up = Stretch { span: plan.warm_up, requests: None, ..plan.stretch };
    if !plan.warm_up.is_zero() {
        for contender in &mut contenders {
            let mut progress = Progress::new(format!("warming up {}", contender.side.name));
            contender.load.drive(warm_up, &mut stop, &mut progress).await;
        }
    }
    for round in 0..plan.rounds {
        for turn in order(round, contenders.len()) {
            if *stop.borrow() {
                break;
            }
            contenders[turn].measure(share(plan.stretch, round, plan.rounds), &mut stop).await;
        }
    }
    let was_stopped = *stop.borrow();
    let measured = |Contender { side, rounds, .. }| Measured { name: side.name, rounds };
    let measured: Vec<Measured> = contenders.into_iter().map(measured).collect();
    if measured.iter().any(|side| side.rounds.is_empty()) {
        return Err(stopped());
    }
    Ok(Report::new(plan, &measured, was_stopped))
}

/// All sides, asked once and with every connection made.
async fn prepare(plan: &Plan) -> Result<Vec<Contender>, Failure> {
    let mut sides = vec![Side::first(plan).await?];
    if let Some(place) = &plan.against {
        sides.push(Side::at(plan, place).await?);
    }
    let mut contenders = Vec::new();
    for side in sides {
        let load = Load::new(side.lines(plan).await?, plan.keys.clone());
        contenders.push(Contender { side, load, rounds: Vec::new() });
    }
    Ok(contenders)
}

impl Contender {
    async fn measure(&mut self, stretch: Stretch, stop: &mut watch::Receiver<bool>) {
        let mut progress = Progress::new(self.side.name.clone());
        let before = self.side.cpu();
        let outcome = self.load.drive(stretch, stop, &mut progress).await;
        let cpu = self.side.cpu().zip(before).map(|(after, before)| after.saturating_sub(before));
        self.rounds.push(Round { outcome, cpu });
    }
}

/// Who comes when: the last of a round is the first of the next, so that a machine that gets slower or faster meanwhile
/// does so for all of them.
fn order(round: u32, sides: usize) -> impl Iterator<Item = usize> {
    (0..sides).map(move |turn| if round.is_multiple_of(2) { turn } else { sides - 1 - turn })
}

/// The part of one round.
fn share(whole: Stretch, round: u32, rounds: u32) -> Stretch {
    let until = |requests: u64, round: u32| {
        let part = u128::from(requests) * u128::from(round) / u128::from(rounds);
        u64::try_from(part).unwrap_or(u64::MAX)
    };
    let requests = whole.requests.map(|all| until(all, round + 1) - until(all, round));
    Stretch { span: whole.span / rounds, requests, rate: whole.rate }
}

/// Turns true when somebody wants it to end.
fn stop_signals() -> Result<watch::Receiver<bool>, Failure> {
    let on = |kind| {
        signal(kind).map_err(|error| Failure::new(format!("cannot watch for signals: {error}")))
    };
    let (mut interrupt, mut terminate, mut hangup) =
        (on(SignalKind::interrupt())?, on(SignalKind::terminate())?, on(SignalKind::hangup())?);
    let (tell, told) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        tell.send_replace(true);
        // Who still looks at it finds it there.
        tell.closed().await;
    });
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_first_changes_each_round() {
        let orders = [0, 1, 2].map(|round| order(round, 2).collect::<Vec<_>>());
        assert_eq!(orders, [[0, 1], [1, 0], [0, 1]]);
        assert_eq!(order(1, 1).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_rounds_have_all_requests_between_them() {
        for (requests, rounds) in [(1, 1), (5, 5), (1003, 5), (u64::MAX, 100)] {
            let whole =
                Stretch { span: Duration::from_secs(1), requests: Some(requests), rate: None };
            let parts = (0..rounds).filter_map(|round| share(whole, round, rounds).requests);
            let parts: Vec<u64> = parts.collect();
            assert_eq!(parts.iter().sum::<u64>(), requests);
            assert!(parts.iter().all(|part| *part > 0));
        }
    }
}
