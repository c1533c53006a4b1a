//! `sd_notify`: one datagram per message, to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::pin::pin;
use std::time::Duration;

/// The socket of systemd's notify protocol, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// The service is restarted without a `WATCHDOG=1` within this time.
    watchdog: Option<Duration>,
}

impl Notifier {
    pub(crate) fn from_env() -> Self {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|name| open(&name).ok());
        Self { to, watchdog: watchdog() }
    }

    /// Reports that all doors are bound.
    pub(crate) fn ready(&self) {
        self.send("READY=1\nSTATUS=serving");
    }

    /// Reports that the shutdown has begun.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing the requests in flight");
    }

    /// Sends `WATCHDOG=1` until `work` is done, twice per watchdog timeout. A runtime that hangs sends none.
    pub(crate) async fn alive_during<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(watchdog) = self.watchdog else { return work.await };
        let (mut work, mut beat) = (pin!(work), tokio::time::interval(watchdog / 2));
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = beat.tick() => self.send("WATCHDOG=1"),
            }
        }
    }

    /// Ignores errors: the service must run without systemd as well.
    fn send(&self, message: &str) {
        if let Some((socket, to)) = &self.to {
            let _ = socket.send_to_addr(message.as_bytes(), to);
        }
    }
}

/// Opens the socket of a path, or of an abstract name, which begins with an @.
fn open(name: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    #[cfg(target_os = "linux")]
    use std::os::linux::net::SocketAddrExt;
    let to = match name.as_bytes().split_first() {
        #[cfg(target_os = "linux")]
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A full queue must not block requests.
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}

/// The watchdog timeout, if it is set for this process.
fn watchdog() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let every_us = number("WATCHDOG_USEC").filter(|us| is_ours && *us > 0)?;
    Some(Duration::from_micros(every_us))
}
