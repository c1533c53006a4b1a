//! How far it is: on one line of a terminal, and now and then a line elsewhere.

use std::io::{self, IsTerminal, Write};

use tidegate::{Clock, SystemClock};

/// How many lines go by between looks at the clock.
const EVERY: u64 = 16_384;

pub(super) struct Progress {
    is_terminal: bool,
    started_us: u64,
    next_us: u64,
    /// Of the log; 0 if it is not known.
    size: u64,
}

impl Progress {
    pub(super) fn new(size: u64) -> Self {
        let (now_us, is_terminal) = (SystemClock.steady_us(), io::stderr().is_terminal());
        let next_us = now_us + pause_us(is_terminal);
        Self { is_terminal, started_us: now_us, next_us, size }
    }

    pub(super) fn read(&mut self, lines: u64, bytes: u64) {
        if !lines.is_multiple_of(EVERY) {
            return;
        }
        let now_us = SystemClock.steady_us();
        if now_us < self.next_us {
            return;
        }
        self.next_us = now_us + pause_us(self.is_terminal);
        let per_second = lines * 1_000_000 / (now_us - self.started_us).max(1);
        let part = match self.size {
            0 => String::new(),
            size => format!(", {} %", (bytes.saturating_mul(100) / size).min(100)),
        };
        let (begin, end) = if self.is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let mut out = io::stderr();
        // Nobody who looks is no reason to stop.
        let _ = write!(out, "{begin}{lines} lines{part}, {per_second} lines/s{end}");
        let _ = out.flush();
    }

    /// Leaves the terminal as it was.
    pub(super) fn done(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn pause_us(is_terminal: bool) -> u64 {
    if is_terminal { 200_000 } else { 10_000_000 }
}
