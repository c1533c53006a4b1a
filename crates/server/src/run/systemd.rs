//! What systemd hands over and wants to hear: sockets that it has bound, and whether the service does well. Nothing of it
//! where nobody asks: each part goes by variables that only systemd sets.

mod notify;
mod sockets;

pub(crate) use self::notify::Notifier;
pub(crate) use self::sockets::Sockets;
