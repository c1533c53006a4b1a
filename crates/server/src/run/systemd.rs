//! systemd: the sockets that it passes, and its notify protocol. Both are off unless systemd sets their environment
//! variables.

mod notify;
mod sockets;

pub(crate) use self::notify::Notifier;
pub(crate) use self::sockets::Sockets;
