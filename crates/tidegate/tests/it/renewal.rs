//! Permits that are held longer than their lease.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Check, Engine, Key, ManualClock, Op, Override, Permit, Policy, Renewed, StoreErrorKind,
};
use tidegate_testkit::scripted::{Scripted, Way};

const KEY: Check<'_> = Check { policy: "export", key: Key::One(b"user-42"), cost: 1 };
const LEASE: Duration = Duration::from_secs(30);

fn engine() -> (Engine<ManualClock>, ManualClock) {
    let clock = ManualClock::default();
    let engine = Engine::builder().clock(clock.clone()).policy("export", "concurrency 1 lease 30s");
    (engine.build().unwrap(), clock)
}

/// The runtime's clock and the store's go on together, a second at a time.
async fn pass(clock: &ManualClock, time: Duration) {
    for _ in 0..time.as_secs() {
        clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn acquire(engine: &Engine<ManualClock>) -> Option<Permit> {
    engine.acquire_for(&KEY).now().unwrap().permit
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_for_as_long_as_it_is_not_dropped() {
    let (engine, clock) = engine();
    let held = acquire(&engine).unwrap();
    pass(&clock, 20 * LEASE).await;
    assert!(acquire(&engine).is_none() && held.is_held());
    drop(held);
    // Nothing renews it any more: neither a place of its own, nor that of another.
    let id = acquire(&engine).unwrap().into_id();
    pass(&clock, LEASE).await;
    assert_eq!(engine.renew(&KEY, &id).now(), Ok(Renewed::NotHeld));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_renewed_by_who_has_it() {
    let (engine, clock) = engine();
    let id = acquire(&engine).unwrap().into_id();
    for _ in 0..5 {
        pass(&clock, LEASE / 2).await;
        assert_eq!(engine.renew(&KEY, &id).now(), Ok(Renewed::For(LEASE)));
    }
    let other = Check { key: Key::One(b"user-43"), ..KEY };
    assert_eq!(engine.renew(&other, &id).now(), Ok(Renewed::NotHeld), "a permit of another key");
    pass(&clock, LEASE).await;
    assert_eq!(engine.renew(&KEY, &id).now(), Ok(Renewed::NotHeld));
    assert!(acquire(&engine).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_lost_is_not_taken_from_the_next_holder() {
    let (engine, clock) = engine();
    let frozen = acquire(&engine).unwrap();
    // The store's clock goes on while the process stands still.
    clock.advance(LEASE);
    assert!(!frozen.is_held(), "it knows at once, before the store is asked");
    clock.advance(LEASE);
    let next = acquire(&engine).unwrap();
    pass(&clock, 3 * LEASE).await;
    assert!(acquire(&engine).is_none(), "the next holder has it");
    assert!(next.is_held() && !frozen.is_held());
    drop(next);
    assert!(acquire(&engine).is_some());
}

/// Its work goes on in any case, so that it has to count: with the next holder there are more than the limit, and nobody
/// else gets a place until both have ended.
#[tokio::test(start_paused = true)]
async fn work_that_goes_on_takes_a_lost_place_anew_beside_the_next_holder() {
    let (engine, clock) = engine();
    let frozen = acquire(&engine).unwrap();
    frozen.retake_if_lost(true);
    clock.advance(2 * LEASE);
    let next = acquire(&engine).unwrap();
    let before = frozen.id();
    pass(&clock, LEASE / 2).await;
    assert!(frozen.is_held() && next.is_held() && frozen.id() != before);
    drop(next);
    pass(&clock, 3 * LEASE).await;
    assert!(acquire(&engine).is_none() && frozen.is_held());
    drop(frozen);
    assert!(acquire(&engine).is_some(), "it is released by its new id");
}

/// The store fails for a moment, and comes back without what it knew.
#[tokio::test(start_paused = true)]
async fn a_place_that_the_store_has_forgotten_is_taken_anew() {
    let (clock, store) = (ManualClock::default(), Scripted::new(Way::AtOnce));
    let engine = Engine::builder().clock(clock.clone()).store(Arc::new(store.clone()));
    let engine = engine.policy("export", "concurrency 1 lease 30s").build().unwrap();
    let held = acquire(&engine).unwrap();
    held.retake_if_lost(true);
    let _ = engine.ask(&KEY, Op::Reset).now().unwrap();
    store.behave(Way::Fails(StoreErrorKind::Timeout));
    pass(&clock, LEASE / 2).await;
    store.behave(Way::AtOnce);
    pass(&clock, LEASE / 2).await;
    assert!(acquire(&engine).is_none() && held.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_moment_costs_no_place() {
    let (clock, store) = (ManualClock::default(), Scripted::new(Way::AtOnce));
    let engine = Engine::builder().clock(clock.clone()).store(Arc::new(store.clone()));
    let engine = engine.policy("export", "concurrency 1 lease 30s").build().unwrap();
    let _held = acquire(&engine).unwrap();
    for _ in 0..4 {
        pass(&clock, LEASE / 6).await;
        store.behave(Way::Fails(StoreErrorKind::Timeout));
        pass(&clock, LEASE / 3).await; // every other renewal
        store.behave(Way::AtOnce);
        pass(&clock, LEASE / 6).await;
    }
    assert!(acquire(&engine).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_permit_under_several_limits_is_renewed_under_all_or_not() {
    let clock = ManualClock::default();
    let jobs = Policy::all()
        .limit("short", "concurrency 1 lease 10s")
        .limit("long", "concurrency 2 lease 60s")
        .limit("rate", "100/s");
    let engine = Engine::builder().clock(clock.clone()).policy("export", jobs).build().unwrap();
    let id = engine.acquire_for(&KEY).now().unwrap().permit.unwrap().into_id();
    clock.advance(Duration::from_secs(9));
    assert_eq!(engine.renew(&KEY, &id).now(), Ok(Renewed::For(Duration::from_secs(10))));
    clock.advance(Duration::from_secs(11));
    assert_eq!(engine.renew(&KEY, &id).now(), Ok(Renewed::NotHeld), "one of two has ended");
}

#[tokio::test(start_paused = true)]
async fn a_key_with_a_limit_of_its_own_keeps_its_lease() {
    let clock = ManualClock::default();
    let export = Policy::all().limit("", "concurrency 1 lease 30s");
    let own = Override::Limit("concurrency 2 lease 90s".parse().unwrap());
    let export = export.with_override("user-42", own);
    let engine = Engine::builder().clock(clock.clone()).policy("export", export).build().unwrap();
    let id = engine.acquire_for(&KEY).now().unwrap().permit.unwrap().into_id();
    let ninety = Duration::from_secs(90);
    assert_eq!(engine.renew(&KEY, &id).now(), Ok(Renewed::For(ninety)));
}
