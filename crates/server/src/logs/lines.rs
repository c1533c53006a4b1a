//! Writes log lines to stderr in a separate thread: a full disk or a stalled reader loses lines and never delays a
//! decision.

use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Further lines are dropped.
const WAITING_MAX: usize = 1024;

/// The wait for the last lines at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

enum Next {
    Line(Vec<u8>),
    /// Answered when all lines before it are written.
    Flush(SyncSender<()>),
}

/// The writer for `tracing`.
#[derive(Clone)]
pub struct Lines(SyncSender<Next>);

impl Lines {
    pub(super) fn start() -> io::Result<Self> {
        let (lines, waiting) = sync_channel(WAITING_MAX);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            for next in waiting {
                match next {
                    // An error cannot be reported anywhere.
                    Next::Line(line) => drop(io::stderr().write_all(&line)),
                    Next::Flush(done) => drop(done.try_send(())),
                }
            }
        })?;
        Ok(Self(lines))
    }

    /// Waits for pending lines, 500 ms at most.
    pub fn flush(&self) {
        let (done, flushed) = sync_channel(1);
        if self.0.try_send(Next::Flush(done)).is_ok() {
            let _ = flushed.recv_timeout(FLUSH_TIMEOUT);
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
