//! A node whose queue the tests take from, in the runtime's own, paused time.

use std::time::Duration;

use tidegate_core::{Decision, Verdict};
use tokio::time::{advance, sleep};

use super::super::question::Outcome;
use super::*;
use tidegate::Source;

const MS: Duration = Duration::from_millis(1);

fn guard() -> Arc<Guard> {
    Arc::new(Guard::new(BreakerOptions::default(), Arc::default(), Arc::default()))
}

/// A question that the breaker let through.
fn passed(guard: &Arc<Guard>) -> Result<Ticket, StoreError> {
    let question = Question::of_announcement(b"tg:{7:user-42}:api:a".to_vec(), String::new());
    let (slot, due) = (question.slot(), Instant::now() + 20 * MS);
    let (mut ticket, _) = Ticket::new(question, slot, due, None);
    ticket.watch = Some((guard.clone(), guard.pass()?));
    Ok(ticket)
}

fn fail(guard: &Arc<Guard>, trouble: StoreErrorKind, times: usize) {
    for _ in 0..times {
        passed(guard).unwrap().fail(trouble, "as told");
    }
}

fn good() -> Outcome {
    let verdict = Verdict { binding: 0, decision: Decision::admitted(1, 0, 0) };
    let (source, permits, grant) = (Source::Store, Vec::new(), None);
    Outcome::StoreReply(StoreReply { verdict, source, permits, grant })
}

/// Waits for a probe, while nobody else gets through.
async fn probe(guard: &Arc<Guard>) -> Ticket {
    let start = Instant::now();
    loop {
        let mut probes = guard.queue.take(usize::MAX, usize::MAX);
        assert!(probes.len() <= 1, "one at a time");
        if let Some(probe) = probes.pop() {
            return probe;
        }
        assert_eq!(passed(guard).unwrap_err().kind(), StoreErrorKind::BreakerOpen);
        assert!(start.elapsed() <= 60 * MS, "no probe");
        sleep(MS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn opens_for_what_the_node_says_of_itself_and_for_nothing_else() {
    let of_others = [
        StoreErrorKind::ClusterDown,
        StoreErrorKind::Moving,
        StoreErrorKind::WrongType,
        StoreErrorKind::BadRequest,
        StoreErrorKind::Overloaded,
        StoreErrorKind::Unreplicated,
    ];
    for trouble in of_others {
        let guard = guard();
        fail(&guard, trouble, 100);
        assert_eq!(guard.switch.state(), BreakerState::Closed, "{trouble:?}");
    }
    let of_the_node = [
        StoreErrorKind::Timeout,
        StoreErrorKind::NotSent,
        StoreErrorKind::Unreachable,
        StoreErrorKind::Disconnected,
        StoreErrorKind::Loading,
        StoreErrorKind::OutOfMemory,
        StoreErrorKind::ReadOnly,
    ];
    for trouble in of_the_node {
        let guard = guard();
        fail(&guard, trouble, 4);
        fail(&guard, StoreErrorKind::ClusterDown, 1);
        assert_eq!(guard.switch.state(), BreakerState::Closed, "{trouble:?}");
        fail(&guard, trouble, 1);
        assert_eq!(guard.switch.state(), BreakerState::Open, "{trouble:?}");
        let error = passed(&guard).unwrap_err();
        assert_eq!((error.kind(), error.ran()), (StoreErrorKind::BreakerOpen, tidegate::Ran::No));
    }
}

#[tokio::test(start_paused = true)]
async fn who_would_not_wait_for_what_is_fast_says_nothing() {
    let guard = guard();
    for _ in 0..50 {
        let mut impatient = passed(&guard).unwrap();
        impatient.due = Instant::now() + 2 * MS;
        advance(2 * MS).await;
        impatient.fail(StoreErrorKind::Timeout, "as told");
    }
    assert_eq!(guard.switch.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_elsewhere_is_counted_there() {
    let (from, to) = (guard(), guard());
    for _ in 0..5 {
        let mut ticket = passed(&from).unwrap();
        advance(5 * MS).await;
        ticket.watch = Some((to.clone(), to.pass().unwrap()));
        ticket.fail(StoreErrorKind::Timeout, "as told");
    }
    assert_eq!(from.switch.state(), BreakerState::Closed);
    assert_eq!(to.switch.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn probes_in_the_slot_of_what_failed_until_three_are_good() {
    let guard = guard();
    fail(&guard, StoreErrorKind::Timeout, 5);
    for answer in
        [Err(StoreError::new(StoreErrorKind::OutOfMemory, "")), Ok(good()), Ok(good()), Ok(good())]
    {
        assert_ne!(guard.switch.state(), BreakerState::Closed);
        let mut probe = probe(&guard).await;
        assert_eq!(probe.question.keys, [b"tg:{7:user-42}:_tidegate:probe:a"]);
        assert_eq!(probe.slot, probe.question.slot());
        probe.answer(answer);
        sleep(MS).await;
    }
    let described = guard.describe("here".to_owned());
    assert_eq!((described.state, described.opened_total), (BreakerState::Closed, 1));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(guard.queue.len(), 0, "probes go on");
}

#[tokio::test(start_paused = true)]
async fn a_slow_probe_is_a_bad_one_and_its_end_is_not_waited_for() {
    let guard = guard();
    fail(&guard, StoreErrorKind::Timeout, 5);
    let mut late = Vec::new();
    for _ in 0..10 {
        late.push(probe(&guard).await);
        sleep(11 * MS).await;
    }
    for probe in &mut late {
        probe.answer(Ok(good()));
    }
    sleep(MS).await;
    assert_eq!(guard.switch.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn who_left_is_probed_no_more() {
    let guard = guard();
    fail(&guard, StoreErrorKind::Timeout, 5);
    drop(probe(&guard).await);
    let queue = guard.queue.clone();
    drop(guard);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(queue.len(), 0);
}
