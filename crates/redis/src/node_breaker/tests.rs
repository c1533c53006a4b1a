//! A node whose queue the tests take from, in the runtime's own, paused time.

use std::time::Duration;

use tidegate_core::{Decision, Verdict};
use tokio::time::{advance, sleep};

use super::*;
use crate::script_reply::ScriptReply;
use tidegate::Source;

const MS: Duration = Duration::from_millis(1);

fn breaker() -> Arc<NodeBreaker> {
    Arc::new(NodeBreaker::new(BreakerOptions::default(), Arc::default(), Arc::default()))
}

/// A request that the breaker let through.
fn passed(breaker: &Arc<NodeBreaker>) -> Result<Pending, StoreError> {
    let request = ScriptRequest::announcement(b"tg:{7:user-42}:api:a".to_vec(), String::new());
    let (slot, due) = (request.slot(), Instant::now() + 20 * MS);
    let (mut pending, _) = Pending::new(request, slot, due, None);
    pending.observer = Some((breaker.clone(), breaker.pass()?));
    Ok(pending)
}

fn fail(breaker: &Arc<NodeBreaker>, trouble: StoreErrorKind, times: usize) {
    for _ in 0..times {
        passed(breaker).unwrap().fail(trouble, "on purpose");
    }
}

fn good() -> ScriptReply {
    let verdict = Verdict { binding: 0, decision: Decision::admitted(1, 0, 0) };
    let (source, permits, grant) = (Source::Store, Vec::new(), None);
    ScriptReply::Decided(StoreReply { verdict, source, permits, grant })
}

/// Waits for a probe, while nobody else gets through.
async fn probe(breaker: &Arc<NodeBreaker>) -> Pending {
    let start = Instant::now();
    loop {
        let mut probes = breaker.queue.take(usize::MAX, u64::MAX);
        assert!(probes.len() <= 1, "one at a time");
        if let Some(probe) = probes.pop() {
            return probe;
        }
        assert_eq!(passed(breaker).unwrap_err().kind(), StoreErrorKind::BreakerOpen);
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
        let breaker = breaker();
        fail(&breaker, trouble, 100);
        assert_eq!(breaker.switch.state(), BreakerState::Closed, "{trouble:?}");
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
        let breaker = breaker();
        fail(&breaker, trouble, 4);
        fail(&breaker, StoreErrorKind::ClusterDown, 1);
        assert_eq!(breaker.switch.state(), BreakerState::Closed, "{trouble:?}");
        fail(&breaker, trouble, 1);
        assert_eq!(breaker.switch.state(), BreakerState::Open, "{trouble:?}");
        let error = passed(&breaker).unwrap_err();
        assert_eq!((error.kind(), error.ran()), (StoreErrorKind::BreakerOpen, tidegate::Ran::No));
    }
}

#[tokio::test(start_paused = true)]
async fn who_would_not_wait_for_what_is_fast_says_nothing() {
    let breaker = breaker();
    for _ in 0..50 {
        let mut short = passed(&breaker).unwrap();
        short.due = Instant::now() + 2 * MS;
        advance(2 * MS).await;
        short.fail(StoreErrorKind::Timeout, "on purpose");
    }
    assert_eq!(breaker.switch.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_elsewhere_is_counted_there() {
    let (from, to) = (breaker(), breaker());
    for _ in 0..5 {
        let mut pending = passed(&from).unwrap();
        advance(5 * MS).await;
        pending.observer = Some((to.clone(), to.pass().unwrap()));
        pending.fail(StoreErrorKind::Timeout, "on purpose");
    }
    assert_eq!(from.switch.state(), BreakerState::Closed);
    assert_eq!(to.switch.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn probes_in_the_slot_of_what_failed_until_three_are_good() {
    let breaker = breaker();
    fail(&breaker, StoreErrorKind::Timeout, 5);
    for answer in
        [Err(StoreError::new(StoreErrorKind::OutOfMemory, "")), Ok(good()), Ok(good()), Ok(good())]
    {
        assert_ne!(breaker.switch.state(), BreakerState::Closed);
        let mut probe = probe(&breaker).await;
        assert_eq!(probe.request.keys, [b"tg:{7:user-42}:_tidegate:probe:a"]);
        assert_eq!(probe.slot, probe.request.slot());
        probe.answer(answer);
        sleep(MS).await;
    }
    let described = breaker.describe("here".to_owned());
    assert_eq!((described.state, described.opened_total), (BreakerState::Closed, 1));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(breaker.queue.len(), 0, "probes go on");
}

#[tokio::test(start_paused = true)]
async fn a_slow_probe_is_a_bad_one_and_its_end_is_not_waited_for() {
    let breaker = breaker();
    fail(&breaker, StoreErrorKind::Timeout, 5);
    let mut late = Vec::new();
    for _ in 0..10 {
        late.push(probe(&breaker).await);
        sleep(11 * MS).await;
    }
    for probe in &mut late {
        probe.answer(Ok(good()));
    }
    sleep(MS).await;
    assert_eq!(breaker.switch.state(), BreakerState::Open);
}

#[tokio::test(start_paused = true)]
async fn who_left_is_probed_no_more() {
    let breaker = breaker();
    fail(&breaker, StoreErrorKind::Timeout, 5);
    drop(probe(&breaker).await);
    let queue = breaker.queue.clone();
    drop(breaker);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(queue.len(), 0);
}
