//! Counters that many threads raise at once without contention.

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::{array, thread};

/// With more threads some share a stripe, which costs a little contention and no count.
const STRIPES_MAX: usize = 16;

/// One per processor, as a power of two.
static STRIPES: LazyLock<usize> = LazyLock::new(|| {
    thread::available_parallelism().map_or(1, usize::from).next_power_of_two().min(STRIPES_MAX)
});

/// `N` counters, each kept once per stripe and summed up when it is read.
#[derive(Debug)]
pub(super) struct StripedCounters<const N: usize>(Box<[Stripe<N>]>);

/// On its own pair of cache lines: processors prefetch them in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Stripe<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for StripedCounters<N> {
    fn default() -> Self {
        let stripe = |_| Stripe(array::from_fn(|_| AtomicU64::new(0)));
        Self((0..*STRIPES).map(stripe).collect())
    }
}

impl<const N: usize> StripedCounters<N> {
    pub(super) fn add(&self, index: usize, count: u64) {
        // The length is a power of two.
        let stripe = self.0.get(thread_number() & (self.0.len() - 1));
        if let Some(counter) = stripe.and_then(|stripe| stripe.0.get(index)) {
            counter.fetch_add(count, Relaxed);
        }
    }

    pub(super) fn read(&self) -> [u64; N] {
        array::from_fn(|index| self.0.iter().map(|stripe| stripe.0[index].load(Relaxed)).sum())
    }
}

/// Numbers threads in the order of their first count.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<Option<usize>> = const { Cell::new(None) });
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let mine = NEXT.fetch_add(1, Relaxed);
            number.set(Some(mine));
            mine
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_is_lost_between_threads() {
        let counters = StripedCounters::<3>::default();
        thread::scope(|scope| {
            for _ in 0..2 * STRIPES_MAX {
                scope.spawn(|| (0..1000).for_each(|_| counters.add(1, 2)));
            }
        });
        assert_eq!(counters.read(), [0, 2 * 2000 * STRIPES_MAX as u64, 0]);
    }
}
