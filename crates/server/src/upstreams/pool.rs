//! Connections that nobody uses just now, the last used on top: those below grow old and are dropped.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Clock, SystemClock};

use super::connection::UpstreamConnection;

#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: Box<UpstreamConnection>,
    since_us: u64,
}

impl Pool {
    /// A connection that was open a moment ago, if there is one that was used within `keep`.
    pub(crate) fn take(&self, keep: Duration) -> Option<Box<UpstreamConnection>> {
        loop {
            let Idle { mut connection, since_us } = self.lock().pop()?;
            if age(since_us) > keep {
                // All below it are older still.
                let old = std::mem::take(&mut *self.lock());
                drop(old);
                return None;
            }
            if connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection, if it can be used again and fewer than `max` are kept.
    pub(crate) fn put(&self, mut connection: Box<UpstreamConnection>, max: usize) {
        if connection.is_idle() {
            let mut idle = self.lock();
            if idle.len() < max {
                idle.push(Idle { connection, since_us: SystemClock.steady_us() });
            }
        }
    }

    /// Drops what is old or closed.
    pub(crate) fn sweep(&self, keep: Duration) {
        let mut kept = std::mem::take(&mut *self.lock());
        kept.retain_mut(|idle| age(idle.since_us) <= keep && idle.connection.is_idle());
        let mut idle = self.lock();
        // Those that came meanwhile are younger.
        kept.append(&mut idle);
        *idle = kept;
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn age(since_us: u64) -> Duration {
    Duration::from_micros(SystemClock.steady_us().saturating_sub(since_us))
}
