//! Progress on stderr: one line that is rewritten on a terminal, and a line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{Clock, SystemClock};

const TERMINAL_EVERY_US: u64 = 200_000;
const PLAIN_EVERY_US: u64 = 10_000_000;

#[derive(Debug)]
pub(super) struct Progress {
    is_terminal: bool,
    start_us: u64,
    next_us: AtomicU64,
}

impl Progress {
    pub(super) fn start() -> Self {
        let (now_us, is_terminal) = (SystemClock.steady_us(), io::stderr().is_terminal());
        Self {
            is_terminal,
            start_us: now_us,
            next_us: AtomicU64::new(now_us + pause_us(is_terminal)),
        }
    }

    /// Prints a line if the last one is old enough. `line` is called only then, with the microseconds since the start.
    pub(super) fn show(&self, line: impl FnOnce(u64) -> String) {
        let (now_us, due_us) = (SystemClock.steady_us(), self.next_us.load(Relaxed));
        let next_us = now_us + pause_us(self.is_terminal);
        // Only one of several threads prints.
        if now_us < due_us
            || self.next_us.compare_exchange(due_us, next_us, Relaxed, Relaxed).is_err()
        {
            return;
        }
        let line = line(now_us - self.start_us);
        let (begin, end) = if self.is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let mut out = io::stderr();
        // A closed stderr is no reason to stop.
        let _ = write!(out, "{begin}{line}{end}").and_then(|()| out.flush());
    }

    /// Clears the line.
    pub(super) fn done(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

const fn pause_us(is_terminal: bool) -> u64 {
    if is_terminal { TERMINAL_EVERY_US } else { PLAIN_EVERY_US }
}
