//! `./dev bench core`: the embedded limiter beside governor, in one run; then an engine beside the limiter, and what else is
//! kept for a key. With the argument `engine` or `states`, only that part.
//!
//! Each row is measured in rounds that alternate between the two, so that noise affects both, with a higher priority than
//! other programs; the figures are medians, and the ratio is the median of the rounds' ratios.

mod states;

use std::hint::black_box;
use std::num::NonZeroU32;

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tidegate::{
    Engine, Limiter, MemoryStore, Policy, RemoteStore, ReserveReply, ReserveRequest, Store,
    StoreExtensions, StoreReply, StoreRequest, StoreResult, Timestamp,
};
use tidegate_bench::keys::{Order, key};
use tidegate_bench::rates::{self, A_MILLION, ROUNDS, Rate, by_threads, rate};
use tidegate_bench::report::{Cell, Figure, Report, Table};
use tidegate_bench::{RaisedPriority, memory};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Limits that admit everything, and limits that refuse everything after the first.
#[derive(Clone, Copy)]
enum Load {
    Admit(Rate),
    Refuse,
}

fn main() {
    RaisedPriority::warn();
    let mut report = Report::new("core");
    match std::env::args().nth(1).as_deref() {
        Some("engine") => return report.add(&engine_table()),
        Some("states") => return report.add(&states::table()),
        _ => {}
    }
    let columns = ["tidegate", "governor", "ratio", "check_many", "ratio of check_many"];
    let mut table = Table::new("governor", "M/s", columns);
    let rows = [
        ("hot key", 1, Order::Uniform, Load::Admit(A_MILLION)),
        ("hot key, refused", 1, Order::Uniform, Load::Refuse),
        ("100k keys, uniform", 100_000, Order::Uniform, Load::Admit(A_MILLION)),
        ("1M keys, zipf", 1_000_000, Order::Zipf, Load::Admit(A_MILLION)),
    ];
    for (name, keys, order, load) in rows {
        for threads in [1, 2] {
            table.row(by_threads(name, threads), row(keys, order, load, threads));
        }
    }
    report.add(&table);
    let mut table = Table::new("rates", "hot key, M/s", columns);
    for threads in [1, 2] {
        for rate in rates::ALL {
            let cells = row(1, Order::Uniform, Load::Admit(rate), threads);
            table.row(by_threads(rate, threads), cells);
        }
    }
    report.add(&table);
    report.add(&engine_table());
    report.add(&states::table());
    let (ours, theirs) = ([memory::per_key(tidegate_keys)], [memory::per_key(governor_keys)]);
    let mut table =
        Table::new("memory", "as the allocator counts", ["tidegate", "governor", "ratio"]);
    let ratio = Figure::saving(&ours, &theirs).into();
    let cells = [Figure::less("", &ours).into(), Figure::less("", &theirs).into(), ratio];
    table.row("bytes per key at 1 M keys", cells);
    report.add(&table);
}

/// The figures of one row: ours, governor's, and the ratios.
fn row(keys: usize, order: Order, load: Load, threads: usize) -> [Cell; 5] {
    let asked: Vec<Vec<String>> = (0..threads).map(|seed| order.keys(keys, seed as u64)).collect();
    let (ours, theirs) = (ours(load), governor(load));
    let one = |key: &String| _ = black_box(ours.check(key).allowed());
    let peer = |key: &String| _ = black_box(theirs.check_key(key).is_ok());
    // Every key exists before the measurement. Created with other functions than the measured ones: those are then called
    // from one place, as in most programs, so that the compiler decides on inlining as it would there.
    (0..keys).map(key).for_each(|key| {
        black_box(ours.check_many(&[&key]));
        _ = black_box(theirs.check_key_n(&key, NonZeroU32::MIN));
    });
    let (mut ours_mops, mut theirs_mops, mut many_mops) = (vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let raised = RaisedPriority::raise(None);
        ours_mops.push(rate(&asked, |keys| keys.iter().for_each(one)));
        theirs_mops.push(rate(&asked, |keys| keys.iter().for_each(peer)));
        many_mops.push(rate(&asked, |keys| _ = black_box(ours.check_many(keys))));
        drop(raised);
        std::thread::sleep(RaisedPriority::REST);
    }
    [
        Figure::more("", &ours_mops).into(),
        Figure::more("", &theirs_mops).into(),
        Figure::ratio(&ours_mops, &theirs_mops).into(),
        Figure::more("", &many_mops).into(),
        Figure::ratio(&many_mops, &theirs_mops).into(),
    ]
}

/// A check through the handle of a policy, beside a limiter: in memory, from a lease, and refused by the deny cache.
fn engine_table() -> Table {
    let columns = ["limiter", "engine handle", "handle / limiter"];
    let mut table = Table::new("engine", "hot key, 1 thread, ns", columns);
    let limit = "1000000/s burst 4000000000";
    let leased = Policy::try_from(limit).expect("a valid limit").lease(true);
    let in_memory = Engine::builder().policy("api", limit).build();
    let with_leases = Engine::builder().store(NearStore::default()).policy("api", leased).build();
    let cached = Engine::builder().store(NearStore::default()).policy("api", "1/day").build();
    for (name, engine, load) in [
        ("memory", in_memory, Load::Admit(A_MILLION)),
        ("leased", with_leases, Load::Admit(A_MILLION)),
        ("refused by the deny cache", cached, Load::Refuse),
    ] {
        table.row(name, engine_row(&engine.expect("a valid policy"), load));
    }
    table
}

fn engine_row(engine: &Engine, load: Load) -> [Cell; 3] {
    let (handle, limiter) = (engine.policy("api").expect("a policy"), ours(load));
    let asked = [Order::Uniform.keys(1, 0)];
    let through = |key: &String| _ = black_box(handle.check(key).now().map(|it| it.decision));
    let alone = |key: &String| _ = black_box(limiter.check(key));
    let (mut handle_ns, mut limiter_ns) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        let raised = RaisedPriority::raise(None);
        handle_ns.push(1e3 / rate(&asked, |keys| keys.iter().for_each(through)));
        limiter_ns.push(1e3 / rate(&asked, |keys| keys.iter().for_each(alone)));
        drop(raised);
        std::thread::sleep(RaisedPriority::REST);
    }
    let ratio = Figure::cost_ratio(&handle_ns, &limiter_ns).into();
    [Figure::less("", &limiter_ns).into(), Figure::less("", &handle_ns).into(), ratio]
}

/// A memory store that looks like one over a network, so that an engine puts leases and a deny cache around it.
#[derive(Debug, Default)]
struct NearStore(MemoryStore);

impl RemoteStore for NearStore {}

impl Store for NearStore {
    fn decide(&self, request: &StoreRequest<'_>, now: Timestamp) -> StoreResult<StoreReply> {
        self.0.decide(request, now)
    }

    fn reserve(&self, request: &ReserveRequest<'_>, now: Timestamp) -> StoreResult<ReserveReply> {
        self.0.reserve(request, now)
    }

    fn extensions(&self) -> StoreExtensions<'_> {
        StoreExtensions { remote: Some(self), ..self.0.extensions() }
    }
}

fn ours(load: Load) -> Limiter {
    match load {
        Load::Admit(rate) => rate.limiter(),
        Load::Refuse => Limiter::new("1/h").expect("a valid limit"),
    }
}

fn governor(load: Load) -> DefaultKeyedRateLimiter<String> {
    match load {
        Load::Admit(rate) => rate.governor(),
        Load::Refuse => RateLimiter::keyed(Quota::per_hour(NonZeroU32::MIN)),
    }
}

fn tidegate_keys(keys: &[String]) -> Limiter {
    // An hour per unit: every key keeps a state.
    let limiter = Limiter::new("100/h").expect("a valid limit");
    keys.iter().for_each(|key| _ = black_box(limiter.check(key).allowed()));
    limiter
}

fn governor_keys(keys: &[String]) -> DefaultKeyedRateLimiter<String> {
    let limiter = RateLimiter::keyed(Quota::per_hour(NonZeroU32::new(100).expect("not 0")));
    keys.iter().for_each(|key| _ = black_box(limiter.check_key(key).is_ok()));
    limiter
}
