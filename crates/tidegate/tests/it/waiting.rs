//! Waiting: `until_ready` and `schedule`, on tokio's paused time.

use std::time::Duration;

use tidegate::{Clock, Effective, Limiter, NeverReady, Shaper, Timestamp};
use tokio::time::{Instant, timeout};

/// Tokio's time, which stands still while anything can run.
#[derive(Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000) + self.0.elapsed()
    }
}

fn limiter(limit: &str) -> Limiter<TokioClock> {
    Limiter::builder(limit).clock(TokioClock(Instant::now())).build().unwrap()
}

fn shaper(limit: &str) -> Shaper<TokioClock> {
    Shaper::builder(limit).clock(TokioClock(Instant::now())).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn waits_as_long_as_the_limit_says_and_at_most_a_tenth_more() {
    let limiter = limiter("10/s burst 1");
    let start = Instant::now();
    for _ in 0..11 {
        assert!(limiter.until_ready("k").await.unwrap().allowed());
    }
    let waited = start.elapsed();
    // A timer has a resolution of a millisecond.
    assert!((Duration::from_secs(1)..Duration::from_millis(1111)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_one_key_do_not_wake_as_one() {
    let limiter = limiter("10/s burst 1");
    let _ = limiter.check("k");
    let first_wake = |limiter: Limiter<TokioClock>| async move {
        let start = Instant::now();
        let _ = limiter.until_ready("k").await;
        start.elapsed()
    };
    let mut waits = Vec::new();
    for _ in 0..8 {
        limiter.reset("k");
        let _ = limiter.check("k");
        waits.push(first_wake(limiter.clone()).await);
    }
    waits.dedup();
    assert!(waits.len() > 1, "eight waits of the same length: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_wait_has_spent_nothing() {
    let limiter = limiter("1/s burst 1");
    let _ = limiter.check("k");
    for _ in 0..5 {
        let wait = timeout(Duration::from_millis(10), limiter.until_ready("k"));
        assert!(wait.await.is_err());
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(limiter.check("k").allowed());
}

#[tokio::test(start_paused = true)]
async fn what_could_never_be_ready_is_an_error_at_once() {
    let limiter = limiter("1/s burst 5");
    assert_eq!(limiter.until_ready_n("k", 6).await, Err(NeverReady { cost: 6, limit: 5 }));
}

#[tokio::test(start_paused = true)]
async fn a_passing_reduction_is_waited_out() {
    let (limiter, effective) = (limiter("100/s burst 20"), Effective::default());
    assert!(limiter.follow(&effective));
    effective.set(10);
    let start = Instant::now();
    assert_eq!(limiter.until_ready_n("k", 21).await, Err(NeverReady { cost: 21, limit: 20 }));
    assert_eq!(start.elapsed(), Duration::ZERO);
    let recovers = async {
        tokio::time::sleep(Duration::from_millis(2500)).await;
        effective.clear();
    };
    let (ready, ()) = tokio::join!(limiter.until_ready_n("k", 20), recovers);
    assert!(ready.unwrap().allowed());
    let waited = start.elapsed();
    assert!((Duration::from_millis(2500)..Duration::from_secs(4)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refund_shortens_a_long_wait() {
    let limiter = limiter("sliding-log 1/day");
    let _ = limiter.check("k");
    let start = Instant::now();
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.until_ready("k").await }
    });
    tokio::time::sleep(Duration::from_millis(2500)).await;
    limiter.refund("k", 1);
    assert!(waiting.await.unwrap().unwrap().allowed());
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_shaper_sends_at_its_pace_and_refuses_what_would_wait_too_long() {
    let shaper = shaper("2/s max-wait 1s");
    let start = Instant::now();
    let tasks: Vec<_> = (0..5)
        .map(|_| {
            let shaper = shaper.clone();
            tokio::spawn(async move { (shaper.schedule("k").await.accepted(), Instant::now()) })
        })
        .collect();
    let mut sent = Vec::new();
    for task in tasks {
        let (accepted, at) = task.await.unwrap();
        sent.push((accepted, (at - start).as_millis()));
    }
    assert_eq!(sent[..3], [(true, 0), (true, 500), (true, 1000)]);
    assert!(sent[3..].iter().all(|(accepted, at)| !accepted && *at == 0), "{sent:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_place_is_given_back_unless_somebody_queued_behind() {
    let shaper = shaper("1/s max-wait 10s");
    let _ = shaper.reserve("k");
    assert!(timeout(Duration::from_millis(1), shaper.schedule("k")).await.is_err());
    assert_eq!(shaper.reserve("k").delay().as_millis(), 999, "the place came back");

    let cancelled = timeout(Duration::from_millis(1), shaper.schedule("k"));
    let behind = async { shaper.reserve("k").delay().as_millis() };
    let (cancelled, behind) = tokio::join!(cancelled, behind);
    assert!(cancelled.is_err());
    assert_eq!(behind, 2999);
    assert_eq!(shaper.reserve("k").delay().as_millis(), 3998, "the place was lost to those behind");
}
