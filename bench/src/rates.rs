//! Limits of many rates, and how fast they are checked.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tidegate::Limiter;

use crate::is_quick;

pub const ROUNDS: usize = 3;
const ROUND: Duration = Duration::from_millis(120);
/// Keys per `check_many` call.
const BATCH: usize = 64;

/// So many units in so many seconds, one or sixty.
#[derive(Clone, Copy)]
pub struct Rate {
    pub units: u32,
    pub seconds: u64,
}

pub const A_MILLION: Rate = Rate { units: 1_000_000, seconds: 1 };

/// What people write, and rates whose interval is no whole number of microseconds.
pub const ALL: [Rate; 11] = [
    Rate { units: 100, seconds: 60 },
    Rate { units: 3, seconds: 1 },
    Rate { units: 7, seconds: 1 },
    Rate { units: 30, seconds: 1 },
    Rate { units: 60, seconds: 1 },
    Rate { units: 97, seconds: 1 },
    Rate { units: 300, seconds: 1 },
    Rate { units: 1000, seconds: 1 },
    Rate { units: 7919, seconds: 1 },
    A_MILLION,
    Rate { units: 1_000_000_000, seconds: 1 },
];

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}/{}`", self.units, if self.seconds == 60 { "min" } else { "s" })
    }
}

/// Both with a burst that no run uses up.
impl Rate {
    pub fn limiter(self) -> Limiter {
        let Self { units, seconds } = self;
        Limiter::new(&*format!("{units}/{seconds}s burst {}", u32::MAX)).expect("a valid limit")
    }

    pub fn governor(self) -> DefaultKeyedRateLimiter<String> {
        let units = NonZeroU32::new(self.units).expect("not 0");
        let quota =
            if self.seconds == 60 { Quota::per_minute(units) } else { Quota::per_second(units) };
        RateLimiter::keyed(quota.allow_burst(NonZeroU32::MAX))
    }
}

/// How a row is called that some threads measure together.
pub fn by_threads(name: impl fmt::Display, threads: usize) -> String {
    format!("{name}, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// Million checks a second over all threads, each with its own keys or the like, in batches.
pub fn rate<T: Sync>(asked: &[Vec<T>], check: impl Fn(&[T]) + Sync) -> f64 {
    let start = Barrier::new(asked.len());
    let round = if is_quick() { ROUND / 20 } else { ROUND };
    let mops = |keys: &Vec<T>| {
        start.wait();
        let (begun, mut done) = (Instant::now(), 0);
        for batch in keys.chunks(BATCH).cycle() {
            check(batch);
            done += batch.len();
            // The clock is not read for every batch.
            if done % (BATCH * 16) == 0 && begun.elapsed() >= round {
                break;
            }
        }
        done as f64 / begun.elapsed().as_secs_f64() / 1e6
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = asked.iter().map(|keys| scope.spawn(|| mops(keys))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}
