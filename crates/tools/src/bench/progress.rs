//! How far a stretch of load is, and how fast.

use super::report::grouped;
use crate::progress;

#[derive(Debug)]
pub(super) struct Progress {
    what: String,
    line: progress::Progress,
    told_us: u64,
    before: u64,
}

impl Progress {
    pub(super) fn new(what: String) -> Self {
        Self { what, line: progress::Progress::start(), told_us: 0, before: 0 }
    }

    pub(super) fn tell(&mut self, (requests, errors): (u64, u64)) {
        let Self { what, line, told_us, before } = self;
        line.tell(|us| {
            // Since the last time, so that a server that stands still is seen to.
            let rate = grouped((requests - *before) * 1_000_000 / (us - *told_us).max(1));
            (*told_us, *before) = (us, requests);
            let failed =
                if errors > 0 { format!(", {} errors", grouped(errors)) } else { String::new() };
            let (seconds, requests) = (us / 1_000_000, grouped(requests));
            format!("{what}: {seconds} s, {requests} requests, {rate}/s{failed}")
        });
    }

    /// Leaves the terminal as it was.
    pub(super) fn done(&self) {
        self.line.done();
    }
}
