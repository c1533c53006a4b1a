//! Where connections come from: a listener on an address, and the streams that it gives.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsStream;

pub(crate) use tidegate_config::Address;
pub(crate) use tidegate_request::Peer;

use crate::net::timeout::within;

/// Gives connections.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// Bound by whoever started us, who goes on listening.
    InheritedTcp(TcpListener),
    /// With the file that is to be removed in the end.
    Unix(UnixListener, SocketFile),
}

/// A listener that was bound before this process began.
#[derive(Debug)]
pub(crate) enum Inherited {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// The file of a Unix socket, removed once: by then another server may have bound its own under the same name.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    is_removed: bool,
}

impl SocketFile {
    fn remove(&mut self) {
        if !self.is_removed {
            self.is_removed = true;
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Listener {
    pub(crate) async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(addr) => TcpListener::bind(addr).await.map(Self::Tcp),
            Address::Unix(path) => {
                remove_stale(path).await?;
                let listener = UnixListener::bind(path)?;
                Ok(Self::Unix(listener, SocketFile { path: path.clone(), is_removed: false }))
            }
        }
    }

    /// Takes over a socket that others keep: in the end nothing is done to it.
    pub(crate) fn inherited(socket: Inherited) -> io::Result<Self> {
        match socket {
            Inherited::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener).map(Self::InheritedTcp)
            }
            Inherited::Unix(listener) => {
                listener.set_nonblocking(true)?;
                let path = listener.local_addr()?.as_pathname().map(PathBuf::from);
                let file = SocketFile { path: path.unwrap_or_default(), is_removed: true };
                Ok(Self::Unix(UnixListener::from_std(listener)?, file))
            }
        }
    }

    /// Where it really listens: port 0 has become a port.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) | Self::InheritedTcp(listener) => {
                listener.local_addr().map(Address::Tcp)
            }
            Self::Unix(_, file) => Ok(Address::Unix(file.path.clone())),
        }
    }

    /// Lets nobody begin to connect any more, while those who have begun can still be accepted: to close a listener
    /// resets whoever is in its queue, and they would have to guess whether they were heard.
    pub(crate) fn stop_accepting(&mut self) {
        match self {
            // Whoever knocks now hears nothing, knocks again a second later, and is refused.
            Self::Tcp(listener) => drop_new_handshakes(listener),
            // Who is not accepted waits for whoever comes after us.
            Self::InheritedTcp(_) => {}
            Self::Unix(_, file) => file.remove(),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) | Self::InheritedTcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // An answer is one small write: waiting for more would only delay it.
                let _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Peer::Ip(peer.ip().to_canonical())))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), Peer::Unix))
            }
        }
    }
}

/// Has the kernel drop every `SYN`; all else passes, such as the end of a handshake. Where it cannot, a handshake at the
/// wrong instant is reset.
#[cfg(target_os = "linux")]
fn drop_new_handshakes(listener: &TcpListener) {
    use socket2::{SockFilter, SockRef};
    // A filter sees a segment from its TCP header on: the flags are in byte 13, and SYN is 2.
    let filter = [
        SockFilter::new(0x30, 0, 0, 13),     // load the byte
        SockFilter::new(0x45, 0, 1, 2),      // without the bit, skip one
        SockFilter::new(0x06, 0, 0, 0),      // drop
        SockFilter::new(0x06, 0, 0, 0xffff), // pass
    ];
    let _ = SockRef::from(listener).attach_filter(&filter);
}

#[cfg(not(target_os = "linux"))]
fn drop_new_handshakes(_: &TcpListener) {}

/// A process that was killed leaves its socket's file behind, and nobody can bind it again. One that somebody answers
/// at is left alone, and so is a file that is no socket.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

/// A connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Any of the others, encrypted.
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Ready when there is something to read, or nothing more will come. For those who take no buffer before that.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
            Self::Tls(stream) => match stream.get_ref() {
                // What was read with the record before is there already.
                (_, session) if !session.wants_read() => Ok(()),
                (inner, _) => Box::pin(inner.readable()).await,
            },
        }
    }

    /// Writes all of it: at once if the other end takes it, and otherwise for at most so long.
    pub(crate) async fn send(&mut self, bytes: &[u8], at_most: Duration) -> io::Result<()> {
        let sent = async {
            self.write_all(bytes).await?;
            // TLS takes more than the kernel does, and keeps the rest until somebody asks. Nothing to do for the others.
            self.flush().await
        };
        let late = || Err(io::ErrorKind::TimedOut.into());
        within(at_most, sent).await.unwrap_or_else(late)
    }
}

/// Calls the same method of whichever stream it is.
macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Tcp(inner) => {
                let $inner = Pin::new(inner);
                $call
            }
            Stream::Unix(inner) => {
                let $inner = Pin::new(inner);
                $call
            }
            Stream::Tls(inner) => {
                let $inner = Pin::new(&mut **inner);
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_file_left_behind_is_taken_over_and_one_in_use_is_not() {
        let path = std::env::temp_dir().join(format!("tidegate-{}.sock", std::process::id()));
        let address = Address::Unix(path.clone());
        let left_behind = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(Listener::bind(&address).await.is_err(), "in use");
        drop(left_behind);
        assert!(path.exists());
        let listener = Listener::bind(&address).await.unwrap();
        let (client, accepted) = tokio::join!(UnixStream::connect(&path), listener.accept());
        assert_eq!(accepted.unwrap().1, Peer::Unix);
        drop((client, listener));
        assert!(!path.exists(), "left behind by us");
    }
}
