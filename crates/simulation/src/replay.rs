//! An access log through policies, at the time of the log: the production code over a store in memory.
//!
//! The command line prints the report, and the playground accepts logs from anybody. Memory is bounded, however long
//! the log is.

mod comparison;
mod counts;
mod lines;
mod plans;
mod rates;
mod record;
mod replayer;
mod report;
mod timeline;

use std::borrow::Cow;
use std::io::{self, Read};

pub use self::comparison::{ChangedClient, ComparisonReport, FlipRow, Flips, compare};
use self::counts::ReplayCounts;
pub use self::counts::{DeniedKey, Unreadable};
use self::lines::Lines;
pub use self::plans::PlanReport;
pub use self::rates::{Percentiles, RateReport};
use self::record::Record;
pub use self::replayer::{ReplaySettings, Replayer};
pub use self::report::{PolicyReport, ReplayReport};
use crate::StopFlag;

/// Sends every line of a log through the policies, and lists up to `top` of the most denied keys of each. `progress`
/// gets the number of lines and bytes read so far. A stopped replay reads no further line.
pub fn replay(
    replayer: &Replayer,
    log: impl Read,
    top: usize,
    stop: &StopFlag,
    mut progress: impl FnMut(u64, u64),
) -> io::Result<ReplayReport> {
    let mut counts = ReplayCounts::default();
    let mut lines = Lines::new(log);
    let with_headers = replayer.reads_headers();
    while !stop.is_stopped()
        && let Some(line) = lines.next()?
    {
        counts.lines += 1;
        match line {
            Err(error) => counts.unreadable(&error),
            Ok(line) => {
                with_text(line, |line| replay_line(replayer, line, with_headers, &mut counts));
            }
        }
        progress(counts.lines, lines.bytes);
    }
    counts.evicted = replayer.evicted();
    counts.first_periods = replayer.first_periods(|policy| counts.policies.contains_key(policy));
    Ok(ReplayReport::new(counts, top))
}

/// Bytes in a path or an agent that are no UTF-8 are replaced.
fn with_text(line: &[u8], then: impl FnOnce(&str)) {
    let lossy = || String::from_utf8_lossy(line);
    then(&str::from_utf8(line).map_or_else(|_| lossy(), Cow::Borrowed));
}

fn replay_line(replayer: &Replayer, line: &str, with_headers: bool, counts: &mut ReplayCounts) {
    let decided = Record::read(line, with_headers).and_then(|record| {
        counts.at(record.at);
        replayer.decide(&record, counts)
    });
    if let Err(error) = decided {
        counts.unreadable(&error);
    }
}
