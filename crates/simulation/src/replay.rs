//! An access log through policies, at the time that the log says: the production code over a store in memory.
//!
//! The command line prints what comes out here, and a page may ask for it with what a stranger pasted. Memory is
//! bounded, however long the log is.

mod judge;
mod lines;
mod record;
mod report;
mod tally;
mod timeline;

use std::borrow::Cow;
use std::io::{self, Read};

pub use self::judge::{Judge, Trial};
use self::lines::Lines;
use self::record::{Record, Unread};
pub use self::report::{Report, Row};
use self::tally::Tally;
pub use self::tally::{DeniedKey, Unreadable};

/// Asks for every line of a log, and lists up to `top` of the keys that each policy has denied most. `progress` is told
/// how many lines were read, and how many bytes.
pub fn replay(
    judge: &Judge,
    log: impl Read,
    top: usize,
    mut progress: impl FnMut(u64, u64),
) -> io::Result<Report> {
    let mut tally = Tally::default();
    let mut lines = Lines::new(log);
    let with_headers = judge.reads_headers();
    while let Some(line) = lines.next()? {
        tally.lines += 1;
        match line {
            Err(_) => tally.unreadable(&Unread::TooLong),
            Ok(line) => one(judge, line, with_headers, &mut tally),
        }
        progress(tally.lines, lines.bytes);
    }
    tally.forgotten = judge.forgotten();
    Ok(Report::new(tally, top))
}

fn one(judge: &Judge, line: &[u8], with_headers: bool, tally: &mut Tally) {
    // What is no UTF-8 in a path or an agent is replaced, as whoever looks at it would.
    let lossy = || String::from_utf8_lossy(line);
    let line = str::from_utf8(line).map_or_else(|_| lossy(), Cow::Borrowed);
    let ruled = Record::read(&line, with_headers).and_then(|record| {
        tally.at(record.at);
        Ok((record.at, judge.rule(&record)?))
    });
    match ruled {
        Ok((at, Some(ruling))) => tally.ruled(at, ruling),
        Ok((_, None)) => tally.unlimited += 1,
        Err(unread) => tally.unreadable(&unread),
    }
}
