//! How far it is: on one line of a terminal, and now and then a line elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{Clock, SystemClock};

/// Where somebody watches.
const TERMINAL_EVERY_US: u64 = 200_000;
/// Where nobody does, a line says enough every so often.
const PLAIN_EVERY_US: u64 = 10_000_000;

#[derive(Debug)]
pub(super) struct Progress {
    is_terminal: bool,
    begun_us: u64,
    next_us: AtomicU64,
}

impl Progress {
    pub(super) fn start() -> Self {
        let (now_us, is_terminal) = (SystemClock.steady_us(), io::stderr().is_terminal());
        let next_us = AtomicU64::new(now_us + pause_us(is_terminal));
        Self { is_terminal, begun_us: now_us, next_us }
    }

    /// Says how far it is, if it is time to. `line` is asked for it only then, and told how many microseconds it took
    /// so far.
    pub(super) fn tell(&self, line: impl FnOnce(u64) -> String) {
        let (now_us, due_us) = (SystemClock.steady_us(), self.next_us.load(Relaxed));
        let next_us = now_us + pause_us(self.is_terminal);
        // Of several threads one says it.
        if now_us < due_us
            || self.next_us.compare_exchange(due_us, next_us, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let line = line(now_us - self.begun_us);
        let (begin, end) = if self.is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let mut out = io::stderr();
        // Nobody who looks is no reason to stop.
        let _ = write!(out, "{begin}{line}{end}").and_then(|()| out.flush());
    }

    /// Leaves the terminal as it was.
    pub(super) fn done(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

const fn pause_us(is_terminal: bool) -> u64 {
    if is_terminal { TERMINAL_EVERY_US } else { PLAIN_EVERY_US }
}
