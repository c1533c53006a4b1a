//! The machine of a breaker behind a lock, and what every call has to know of it without one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::machine::{Call, Machine, micros};
use super::{BreakerOptions, BreakerState};

/// Decides when a breaker opens and closes, by the calls and probes that it counts.
///
/// ```
/// use tidegate::store_kit::BreakerSwitch;
/// use tidegate::{BreakerOptions, BreakerState};
///
/// let switch = BreakerSwitch::new(BreakerOptions::default());
/// assert_eq!((switch.state(), switch.opened_total()), (BreakerState::Closed, 0));
/// assert_eq!(switch.options().failures, 5);
/// ```
#[derive(Debug)]
pub struct BreakerSwitch {
    options: BreakerOptions,
    origin: Instant,
    machine: Mutex<Machine>,
    /// How often it has opened, twice, and one more while it is open: what every call has to know.
    openings: AtomicU64,
    pub(super) has_prober: AtomicBool,
}

impl BreakerSwitch {
    /// Closed at first.
    pub fn new(options: BreakerOptions) -> Self {
        let options = options.bounded();
        let (machine, origin) = (Mutex::new(Machine::new(options.clone())), Instant::now());
        let (openings, has_prober) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { options, origin, machine, openings, has_prober }
    }

    /// What it goes by.
    pub const fn options(&self) -> &BreakerOptions {
        &self.options
    }

    /// What the breaker does now.
    pub fn state(&self) -> BreakerState {
        self.machine().state()
    }

    /// How often it has opened.
    pub fn opened_total(&self) -> u64 {
        self.machine().opened()
    }

    /// How often it has opened, and whether it is open.
    pub(super) fn look(&self) -> (u64, bool) {
        let openings = self.openings.load(Ordering::Acquire);
        (openings / 2, !openings.is_multiple_of(2))
    }

    /// Counts a call, and answers whether the breaker opens for it.
    pub(super) fn record(&self, call: Call) -> bool {
        let mut machine = self.machine();
        let opens = machine.record(self.now_us(), call);
        if opens {
            self.show(&machine);
        }
        opens
    }

    pub(super) fn next_probe(&self, random: u64) -> Option<Duration> {
        self.machine().wait_us(random).map(Duration::from_micros)
    }

    /// Counts a probe, and answers whether the breaker closes for it.
    pub(super) fn probed(&self, good: bool) -> bool {
        let mut machine = self.machine();
        let closes = machine.probed(self.now_us(), good);
        if closes {
            // Before the next opening can look for a prober: this one is about to end.
            self.has_prober.store(false, Ordering::Release);
            self.show(&machine);
        }
        closes
    }

    /// Tells every call what the machine, which is locked, has come to.
    fn show(&self, machine: &Machine) {
        let open = u64::from(machine.state() != BreakerState::Closed);
        self.openings.store(machine.opened() * 2 + open, Ordering::Release);
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_us(&self) -> u64 {
        micros(self.origin.elapsed())
    }
}
