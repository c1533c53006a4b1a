//! `sd_notify`: one datagram per message, to the socket that `NOTIFY_SOCKET` names.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::pin::pin;
use std::time::Duration;

/// Who wants to hear how the service does; nobody, usually.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often a sign of life is wanted at least.
    watchdog: Option<Duration>,
}

impl Notifier {
    pub(crate) fn from_env() -> Self {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|name| open(&name).ok());
        Self { to, watchdog: watchdog() }
    }

    /// All doors are bound.
    pub(crate) fn ready(&self) {
        self.send("READY=1\nSTATUS=serving");
    }

    /// The end has begun.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing the requests in flight");
    }

    /// Gives signs of life until something is done, at twice the pace that is wanted: a runtime that hangs gives none.
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

    /// Whether it is heard is not our business.
    fn send(&self, message: &str) {
        if let Some((socket, to)) = &self.to {
            let _ = socket.send_to_addr(message.as_bytes(), to);
        }
    }
}

/// A path, or a name that begins with an @ and is in no file system.
fn open(name: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    #[cfg(target_os = "linux")]
    use std::os::linux::net::SocketAddrExt;
    let to = match name.as_bytes().split_first() {
        #[cfg(target_os = "linux")]
        Some((b'@', rest)) => SocketAddr::from_abstract_name(rest)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // Somebody who does not listen must not hold up requests.
    socket.set_nonblocking(true)?;
    Ok((socket, to))
}

/// Only if it is meant for this process.
fn watchdog() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let every_us = number("WATCHDOG_USEC").filter(|us| is_ours && *us > 0)?;
    Some(Duration::from_micros(every_us))
}
