//! How far it is: on one line of a terminal, and now and then a line elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use tokio::time::Instant;

use super::report::grouped;

/// Where nobody watches, a line says enough every so often.
const PLAIN_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Progress {
    what: String,
    is_terminal: bool,
    begun: Instant,
    told: Instant,
    before: u64,
}

impl Progress {
    pub(super) fn new(what: String) -> Self {
        let now = Instant::now();
        let is_terminal = io::stderr().is_terminal();
        Self { what, is_terminal, begun: now, told: now, before: 0 }
    }

    pub(super) fn tell(&mut self, (requests, errors): (u64, u64)) {
        let now = Instant::now();
        let since = now.duration_since(self.told);
        let pause = if self.is_terminal { Duration::from_millis(500) } else { PLAIN_EVERY };
        if since < pause {
            return;
        }
        let ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = grouped((requests - self.before) * 1000 / ms);
        let failed =
            if errors > 0 { format!(", {} errors", grouped(errors)) } else { String::new() };
        let (begin, end) = if self.is_terminal { ("\r\x1b[K", "") } else { ("", "\n") };
        let seconds = now.duration_since(self.begun).as_secs();
        let mut out = io::stderr();
        // Nobody who looks is no reason to stop.
        let _ = write!(
            out,
            "{begin}{}: {seconds} s, {} requests, {rate}/s{failed}{end}",
            self.what,
            grouped(requests)
        );
        let _ = out.flush();
        (self.told, self.before) = (now, requests);
    }

    /// Leaves the terminal as it was.
    pub(super) fn done(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
