//! The adaptive runtime on one node: what is observed and pushed becomes what is in force.

use std::time::Duration;

use tidegate::adaptive::{
    Adaptive, Cap, Chain, Mode, Priority, Ramp, Reading, Rule, Source, Target,
};
use tidegate::{Clock, Effective, Engine, ManualClock, Policy};

/// Generous: it only passes when something is broken.
const DEADLINE: Duration = Duration::from_secs(20);

const SECOND: Duration = Duration::from_secs(1);

fn adaptive() -> (Adaptive, ManualClock) {
    let clock = ManualClock::default();
    (Adaptive::with_clock(clock.clone()), clock)
}

fn by_pressure(adaptive: &Adaptive) -> Rule {
    Rule::from_chains([(Chain::pressure("db"), Source::Pushed(adaptive.target("db")))]).unwrap()
}

async fn next_tick(adaptive: &Adaptive, clock: &ManualClock) {
    clock.advance(SECOND);
    adaptive.tick().await;
}

/// So many requests that take so long.
fn observe(target: &Target, latency_ms: u64, requests: u64, ok: bool) {
    (0..requests).for_each(|_| target.observe(Duration::from_millis(latency_ms), ok));
}

#[tokio::test]
async fn a_pressure_becomes_the_limit_of_its_ramp() {
    for (pressure, units) in [(0.0, None), (0.3, Some(70)), (0.5, Some(50)), (0.995, Some(1))] {
        let (adaptive, clock) = adaptive();
        let effective = adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
        for _ in 0..30 {
            adaptive.target("db").push(Reading::Value(pressure));
            next_tick(&adaptive, &clock).await;
        }
        assert_eq!(effective.units(), units, "{pressure}");
        assert_eq!(adaptive.status()[0].units, units.unwrap_or(100), "{pressure}");
    }
}

#[tokio::test]
async fn what_waits_and_what_fails_takes_away_and_gives_back() {
    for (latency_ms, ok, binding) in [(400, true, "queue wait"), (20, false, "errors")] {
        let (adaptive, clock) = adaptive();
        let db = adaptive.target("db");
        let effective = adaptive.govern("p", 1000, Rule::observing(&db)).unwrap();
        for _ in 0..30 {
            observe(&db, 20, 50, true);
            next_tick(&adaptive, &clock).await;
        }
        assert_eq!(effective.units(), None, "well");
        for _ in 0..30 {
            observe(&db, latency_ms, 50, ok);
            next_tick(&adaptive, &clock).await;
        }
        assert_eq!(effective.units(), Some(50), "a twentieth is left");
        let status = &adaptive.status()[0];
        assert_eq!((status.binding.as_deref(), db.pressure() > 0.9), (Some(binding), true));
        for _ in 0..300 {
            observe(&db, 20, 50, true);
            next_tick(&adaptive, &clock).await;
        }
        assert_eq!(effective.units(), None, "exactly what was declared");
    }
}

#[tokio::test]
async fn silence_never_opens() {
    let (adaptive, clock) = adaptive();
    let effective = adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    for _ in 0..20 {
        adaptive.target("db").push(Reading::Value(0.6));
        next_tick(&adaptive, &clock).await;
    }
    let before = effective.units().unwrap();
    for _ in 0..60 {
        next_tick(&adaptive, &clock).await;
        assert!(effective.units().unwrap() <= before);
    }
    assert!(adaptive.status()[0].output.is_stale);
    // A source that fails time and again is taken for sick, and each failure is counted once.
    let (adaptive, clock) = self::adaptive();
    let effective = adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    for failures in 1..=20 {
        adaptive.target("db").push(Reading::Failed);
        next_tick(&adaptive, &clock).await;
        assert_eq!(effective.units().is_some(), failures >= 3, "{failures}");
    }
    assert_eq!(effective.units(), Some(20), "0.8");
}

#[tokio::test]
async fn a_value_that_is_pushed_holds_until_the_next_is_due() {
    let (adaptive, clock) = adaptive();
    adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    let is_stale = |adaptive: &Adaptive| adaptive.status()[0].output.is_stale;
    for _ in 0..20 {
        // A source that is half a second out of step with us.
        clock.advance(SECOND / 2);
        adaptive.target("db").push(Reading::Value(0.1));
        clock.advance(SECOND / 2);
        adaptive.tick().await;
        assert!(!is_stale(&adaptive));
    }
    for _ in 0..6 {
        next_tick(&adaptive, &clock).await;
    }
    assert!(is_stale(&adaptive));
}

#[tokio::test]
async fn an_operator_has_the_last_word() {
    let (adaptive, clock) = adaptive();
    let effective = adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    adaptive.target("db").push(Reading::Value(0.0));
    adaptive.target("db").fix(Some(0.3));
    next_tick(&adaptive, &clock).await;
    assert_eq!(effective.units(), Some(70));
    assert!(adaptive.fix("p", Some(0.05)) && !adaptive.fix("nobody", Some(0.05)));
    assert_eq!(effective.units(), Some(5), "at once");
    next_tick(&adaptive, &clock).await;
    assert_eq!((effective.units(), adaptive.status()[0].fixed), (Some(5), Some(0.05)));
    assert!(!adaptive.fix("p", Some(f64::NAN)) && !adaptive.fix("p", Some(1.5)));
    assert!(adaptive.fix("p", None));
    adaptive.target("db").fix(None);
    for _ in 0..300 {
        adaptive.target("db").push(Reading::Value(0.0));
        next_tick(&adaptive, &clock).await;
    }
    assert_eq!(effective.units(), None);
}

#[tokio::test]
async fn an_operator_has_the_last_word_on_urls_too() {
    let (adaptive, clock) = adaptive();
    let site = adaptive.target("site");
    let ramp = Ramp::latency_per_url();
    let effective = adaptive.govern_urls("pages", 100, ramp, &site, Mode::Enforce);
    site.observe_url("/slow", Duration::from_mins(1));
    next_tick(&adaptive, &clock).await;
    let units = || [effective.units_for("/slow"), effective.units_for("/never")];
    assert_eq!(units(), [Some(1), None]);
    assert!(adaptive.fix("pages", Some(0.29)));
    assert_eq!(units(), [Some(29), Some(29)], "at once, and no unit is lost to a float");
    next_tick(&adaptive, &clock).await;
    adaptive.govern_urls("pages", 200, ramp, &site, Mode::Enforce);
    next_tick(&adaptive, &clock).await;
    assert_eq!(units(), [Some(58), Some(58)], "through a reload");
    assert!(!adaptive.fix("pages", Some(f64::NAN)) && !adaptive.fix("nobody", None));
    assert!(adaptive.fix("pages", None));
    assert_eq!(units(), [Some(3), None]);
}

#[tokio::test]
async fn in_shadow_it_is_computed_and_not_enforced() {
    let (adaptive, clock) = adaptive();
    let rule = by_pressure(&adaptive).settings(|it| Ok(it.mode(Mode::Shadow))).unwrap();
    let effective = adaptive.govern("p", 100, rule).unwrap();
    let policy = Policy::all().limit("", "fixed-window 100/h").adaptive("", &effective);
    let engine = Engine::builder().clock(clock.clone()).policy("p", policy).build().unwrap();
    adaptive.target("db").push(Reading::Value(0.5));
    next_tick(&adaptive, &clock).await;
    assert_eq!((effective.units(), adaptive.status()[0].units), (Some(50), 50));
    assert_eq!(engine.check("p", "k").now().unwrap().decision.limit(), 100);
    adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    assert_eq!(engine.check("p", "k").now().unwrap().decision.limit(), 50, "from now on it is");
    let off = by_pressure(&adaptive).settings(|it| Ok(it.mode(Mode::Off))).unwrap();
    adaptive.govern("p", 100, off).unwrap();
    next_tick(&adaptive, &clock).await;
    assert_eq!(engine.check("p", "k").now().unwrap().decision.limit(), 100);
}

#[tokio::test]
async fn priorities_give_way_one_after_the_other() {
    let (adaptive, clock) = adaptive();
    let classes: Vec<Effective> = Priority::ALL
        .iter()
        .map(|class| {
            let rule = by_pressure(&adaptive).priority(*class);
            adaptive.govern(&format!("{class:?}"), 100, rule).unwrap()
        })
        .collect();
    adaptive.target("db").push(Reading::Value(0.3));
    next_tick(&adaptive, &clock).await;
    let units: Vec<_> = classes.iter().map(Effective::units).collect();
    assert_eq!(units, [None, None, Some(50), Some(1)]);
    let shadow = by_pressure(&adaptive).settings(|it| Ok(it.mode(Mode::Shadow))).unwrap();
    let shadow = adaptive.govern("shadow", 100, shadow.priority(Priority::Batch)).unwrap();
    next_tick(&adaptive, &clock).await;
    assert_eq!(shadow.units(), None, "a signal that is missing takes nothing away");
    adaptive.target("db").push(Reading::Value(0.3));
    next_tick(&adaptive, &clock).await;
    assert_eq!((shadow.units(), shadow.is_enforced()), (Some(50), false), "as it would be");
}

#[tokio::test]
async fn the_guard_falls_with_the_limit() {
    let ((adaptive, clock), all) = (adaptive(), Effective::default());
    let rule = by_pressure(&adaptive).settings(|it| it.guard(4000)).unwrap().guard(&all);
    adaptive.govern("p", 10, rule).unwrap();
    adaptive.target("db").push(Reading::Value(0.5));
    next_tick(&adaptive, &clock).await;
    assert_eq!(all.units(), Some(2000));
}

#[tokio::test]
async fn every_url_has_the_limit_of_its_own_minute() {
    let (adaptive, clock) = adaptive();
    let site = adaptive.target("site");
    let ramp = Ramp::latency_per_url();
    let effective = adaptive.govern_urls("pages", 240, ramp, &site, Mode::Enforce);
    for (url, took_ms, units) in [
        ("/fast", 300, None),
        ("/slow", 5000, Some(177)),
        ("/slower", 9150, Some(122)),
        ("/slowest", 18_000, Some(4)),
        ("/hangs", 19_000, Some(4)),
    ] {
        let request = site.begin().of_url(url);
        clock.advance(Duration::from_millis(took_ms));
        if url == "/hangs" {
            adaptive.tick().await;
            assert_eq!(effective.units_for(url), units, "it still runs");
        }
        request.done(true);
        adaptive.tick().await;
        assert_eq!(effective.units_for(url), units, "{url}");
        assert_eq!(effective.units_for("/never"), None);
    }
    assert_eq!(site.busiest_urls(2).len(), 2);
    clock.advance(Duration::from_secs(61));
    adaptive.tick().await;
    assert_eq!(effective.units_for("/slowest"), None, "a minute later it is well");
}

#[tokio::test]
async fn a_reload_goes_on_from_what_is_known() {
    let (adaptive, clock) = adaptive();
    let before = adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    for _ in 0..30 {
        adaptive.target("db").push(Reading::Value(0.5));
        next_tick(&adaptive, &clock).await;
    }
    let after = adaptive.govern("p", 1000, by_pressure(&adaptive)).unwrap();
    adaptive.target("db").push(Reading::Value(0.5));
    next_tick(&adaptive, &clock).await;
    assert_eq!((before.units(), after.units()), (Some(500), Some(500)), "they are one");
    // Other signals start from nothing.
    let rule = Rule::observing(&adaptive.target("db"));
    adaptive.govern("p", 1000, rule).unwrap();
    next_tick(&adaptive, &clock).await;
    assert_eq!(after.units(), None);
    after.set(5);
    adaptive.retain(|_| false);
    assert_eq!(after.units(), None, "nobody sets it any more");
}

#[test]
fn reloads_do_not_pile_up_what_was_protected() {
    let (adaptive, _) = adaptive();
    let kept = adaptive.target("kept");
    for generation in 0..50 {
        let name = |number: usize| format!("{generation} {number}");
        for name in (0..200).map(name) {
            let rule = Rule::observing(&adaptive.target(&name));
            adaptive.govern(&name, 100, rule).unwrap();
        }
        adaptive.retain(|name| name.starts_with(&format!("{generation} ")));
        let names: Vec<_> = adaptive.targets().iter().map(|it| it.name().to_owned()).collect();
        assert_eq!(names.len(), 201, "{names:?}");
        assert!(names.contains(&name(0)) && names.contains(&kept.name().to_owned()), "{names:?}");
    }
}

#[tokio::test]
async fn what_is_under_way_ends_however_it_ends() {
    let target = Adaptive::default().target("db");
    target.begin().done(true);
    target.begin().done(false);
    drop(target.begin().of_url("/"));
    assert_eq!(target.in_flight(), 0);
    // Cancelled while it runs.
    let running = target.clone();
    let task = tokio::spawn(async move {
        let _request = running.begin();
        std::future::pending::<()>().await;
    });
    let start = tokio::time::Instant::now();
    while target.in_flight() == 0 {
        assert!(start.elapsed() < DEADLINE);
        tokio::task::yield_now().await;
    }
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(target.in_flight(), 0);
    // Panics.
    let panics = target.clone();
    let task = tokio::spawn(async move {
        let _request = panics.begin();
        panic!("on purpose");
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(target.in_flight(), 0);
}

#[tokio::test]
async fn a_panic_counts_as_an_error_and_a_cancel_does_not() {
    let (adaptive, clock) = adaptive();
    let db = adaptive.target("db");
    adaptive.govern("p", 100, Rule::observing(&db)).unwrap();
    (0..50).for_each(|_| drop(db.begin()));
    next_tick(&adaptive, &clock).await;
    assert_eq!(db.seen().errors, Reading::Value(0.0));
    for _ in 0..50 {
        let db = db.clone();
        let panicked = std::thread::spawn(move || {
            let _request = db.begin();
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
    }
    next_tick(&adaptive, &clock).await;
    assert_eq!(db.seen().errors, Reading::Value(0.5));
}

#[tokio::test]
async fn no_more_are_under_way_than_the_cap_allows() {
    let (adaptive, clock) = adaptive();
    let db = adaptive.target("db");
    db.set_cap(Some(Cap::gradient(10).unwrap()));
    adaptive.govern("p", 100, Rule::observing(&db)).unwrap();
    let fill = |priority| (0..100).map_while(|_| db.enter(priority)).collect::<Vec<_>>();
    assert_eq!(fill(Priority::Default).len(), 16);
    let held = fill(Priority::Critical);
    assert_eq!((held.len(), db.in_flight()), (20, 20));
    assert!(db.enter(Priority::BestEffort).is_none());
    drop(held);
    assert_eq!(db.in_flight(), 0);
    // Ten times slower than it is when nothing waits: the cap falls to what the pool is known to hold.
    for latency_ms in [vec![10; 20], vec![100; 60]].concat() {
        observe(&db, latency_ms, 50, true);
        next_tick(&adaptive, &clock).await;
    }
    assert_eq!(db.slots(), Some(10));
    db.set_cap(Some(Cap::gradient(10).unwrap()));
    assert_eq!(db.slots(), Some(10), "a reload goes on from where it was");
    db.set_cap(Some(Cap::fixed(10).unwrap()));
    assert_eq!(db.slots(), Some(20));
}

#[tokio::test]
async fn nothing_is_noted_of_who_was_refused_after_all() {
    let (adaptive, clock) = adaptive();
    let site = adaptive.target("site");
    site.begin().of_url("/report").done(true);
    for _ in 0..9 {
        site.begin().of_url("/report").refused();
    }
    clock.advance(Duration::from_millis(10));
    adaptive.tick().await;
    let counts: Vec<_> = site.busiest_urls(9).iter().map(|(_, url)| url.count).collect();
    assert_eq!((site.seen().count, counts), (1, vec![1]));
    let late = site.begin().of_url("/late");
    clock.advance(Duration::from_secs(90));
    late.refused();
    assert!(site.busiest_urls(9).is_empty() && site.in_flight() == 0);
}

#[tokio::test]
async fn many_threads_leave_nothing_under_way() {
    let db = Adaptive::default().target("db");
    db.set_pool(8).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let db = db.clone();
            std::thread::spawn(move || {
                for n in 0..2000 {
                    if let Some(request) = db.enter(Priority::Default) {
                        assert!(db.in_flight() <= 16);
                        request.of_url(&format!("/{}", n % 7)).done(n % 3 == 0);
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(db.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn it_ticks_by_itself_until_it_is_dropped() {
    let adaptive = Adaptive::with_clock(tidegate_testkit::scripted::RuntimeClock::start());
    let effective = adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    assert!(adaptive.start() && !adaptive.start(), "once");
    let db = adaptive.target("db");
    db.fix(Some(0.5));
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(effective.units(), Some(50));
    assert_eq!(adaptive.status()[0].output.version, 4, "at once, and then every second");
    drop(adaptive);
    effective.set(7);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(effective.units(), Some(7), "nobody ticks any more");
}

#[test]
fn it_can_be_started_again_when_its_runtime_has_ended() {
    let adaptive = Adaptive::default();
    adaptive.govern("p", 100, by_pressure(&adaptive)).unwrap();
    for runtimes in 1..=3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            assert!(adaptive.start() && !adaptive.start(), "runtime {runtimes}");
            let (start, ticks) = (tokio::time::Instant::now(), adaptive.status()[0].output.version);
            while adaptive.status()[0].output.version == ticks {
                assert!(start.elapsed() < DEADLINE);
                tokio::task::yield_now().await;
            }
        });
    }
}

#[tokio::test]
async fn targets_are_bounded() {
    let (adaptive, clock) = adaptive();
    for n in 0..4500 {
        adaptive.target(&n.to_string()).observe(Duration::from_millis(1), true);
    }
    assert!(adaptive.targets().len() <= 4001);
    next_tick(&adaptive, &clock).await;
    assert_eq!(adaptive.target("other").seen().count, 500);
    assert!(clock.now() > ManualClock::default().now());
}
