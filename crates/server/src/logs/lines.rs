//! Lines on their way to stderr. A thread of their own writes them: a disk that is full or a reader that has stopped
//! reading costs lines, and never a decision.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// So many lines wait at most; what comes then is dropped.
const WAITING_MAX: usize = 1024;

/// How long the last lines have at the end of the process.
const LAST_WORDS: Duration = Duration::from_millis(500);

enum Next {
    Line(Vec<u8>),
    /// Answered once all before it is written.
    Flush(SyncSender<()>),
}

/// Where lines are handed in.
#[derive(Clone)]
pub struct Lines(SyncSender<Next>);

impl Lines {
    pub(super) fn start() -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            for next in waiting {
                match next {
                    // Nobody is left to be told that it failed.
                    Next::Line(line) => drop(io::stderr().write_all(&line)),
                    Next::Flush(done) => drop(done.try_send(())),
                }
            }
        })?;
        Ok(Self(lines))
    }

    /// Waits until what was logged is written, but not for long.
    pub fn flush(&self) {
        let (done, flushed) = sync_channel(1);
        if self.0.try_send(Next::Flush(done)).is_ok() {
            let _ = flushed.recv_timeout(LAST_WORDS);
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// One event is one write.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(Next::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
