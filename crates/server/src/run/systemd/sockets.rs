//! Sockets that were bound before this process began: `LISTEN_FDS`, with a door's name for each in `LISTEN_FDNAMES`.
//!
//! Clients that connect while no server runs wait in the socket's queue, so that a restart refuses no connection.

use std::io;

use listenfd::ListenFd;
use tidegate_config::Door;
use tidegate_core::text::printable;

use crate::net::{Inherited, Listener};

/// Sockets by the name of their door.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Vec<(Door, Inherited)>);

impl Sockets {
    /// Takes all passed sockets. The error names a socket without a door.
    pub(crate) fn from_env() -> Result<Self, String> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut handed = ListenFd::from_env();
        let count = handed.len();
        let mut names = names.split(':');
        let mut sockets = Vec::new();
        for index in 0..count {
            let door = door(names.next().unwrap_or_default(), count)?;
            if sockets.iter().any(|(other, _)| *other == door) {
                return Err(format!(
                    "two sockets were handed over for the door `{}`",
                    door.as_str()
                ));
            }
            let socket = take(&mut handed, index);
            sockets.push((
                door,
                socket.map_err(|error| format!("the socket for `{}`: {error}", door.as_str()))?,
            ));
        }
        Ok(Self(sockets))
    }

    /// The socket of a door. Needs a running tokio runtime.
    pub(crate) fn take(&mut self, door: Door) -> Option<io::Result<Listener>> {
        let found = self.0.iter().position(|(name, _)| *name == door)?;
        Some(Listener::inherited(self.0.swap_remove(found).1))
    }
}

/// The door of a socket name. A single socket with another name is for HTTP: systemd names it after its unit by default.
fn door(name: &str, count: usize) -> Result<Door, String> {
    match Door::ALL.into_iter().find(|door| door.as_str() == name) {
        Some(door) => Ok(door),
        None if count == 1 => Ok(Door::Http),
        None => Err(format!(
            "systemd passed a socket named `{}`, which is no door: set FileDescriptorName= to one of {}",
            printable(name),
            Door::ALL.map(Door::as_str).join(", ")
        )),
    }
}

/// Takes a socket, over TCP or Unix.
fn take(handed: &mut ListenFd, index: usize) -> io::Result<Inherited> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    match handed.take_tcp_listener(index) {
        Ok(listener) => listener.map(Inherited::Tcp).ok_or_else(missing),
        Err(_) => handed.take_unix_listener(index)?.map(Inherited::Unix).ok_or_else(missing),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_belongs_to_the_door_of_its_name() {
        for (name, count, expected) in [
            ("http", 3, Some("http")),
            ("grpc", 3, Some("grpc")),
            ("resp", 1, Some("resp")),
            ("tidegate.socket", 1, Some("http")),
            ("", 1, Some("http")),
            ("tidegate.socket", 2, None),
        ] {
            assert_eq!(door(name, count).ok().map(Door::as_str), expected, "{name} of {count}");
        }
    }
}
