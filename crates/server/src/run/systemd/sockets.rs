//! Sockets that were bound before this process began: `LISTEN_FDS`, with a door's name for each in `LISTEN_FDNAMES`.
//!
//! Whoever connects while no server runs waits in the socket's queue, so that a restart refuses nobody.

use std::io;

use listenfd::ListenFd;
use tidegate_config::Door;
use tidegate_core::text::printable;

use crate::net::{Inherited, Listener};

/// Sockets by the name of their door.
#[derive(Debug, Default)]
pub(crate) struct Sockets(Vec<(Door, Inherited)>);

impl Sockets {
    /// Takes all that were handed over. An error says which has no door.
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

/// The door of a name. Without a name of ours, the only socket is for HTTP: systemd then names it after its unit.
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

/// Of whichever kind it is.
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
    fn a_socket_is_for_the_door_it_is_named_after() {
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
