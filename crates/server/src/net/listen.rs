//! Listeners and their streams, over TCP, Unix sockets and TLS.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_rustls::TlsStream;

pub(crate) use tidegate_config::Address;
pub(crate) use tidegate_request::Peer;

use crate::net::timeout::within;

#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    /// Bound by the parent process, which keeps listening.
    InheritedTcp(TcpListener),
    /// With the socket file, which is removed at the end.
    Unix(UnixListener, SocketFile),
}

/// A listener that was bound before this process began.
#[derive(Debug)]
pub(crate) enum Inherited {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// The file of a Unix socket. Removed only once, because another server may bind the same name afterwards.
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

    /// Uses a socket of the parent process, and does not remove it at the end.
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

    /// The bound address: port 0 has become a real port.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) | Self::InheritedTcp(listener) => {
                listener.local_addr().map(Address::Tcp)
            }
            Self::Unix(_, file) => Ok(Address::Unix(file.path.clone())),
        }
    }

    /// Refuses new handshakes; those in progress can still be accepted. Closing the listener would reset the connections
    /// in its queue, and their clients could not know whether a request was processed.
    pub(crate) fn stop_accepting(&mut self) {
        match self {
            // A client gets no reply, retries after a second, and is refused.
            Self::Tcp(listener) => drop_new_handshakes(listener),
            // Connections that are not accepted wait for the next process.
            Self::InheritedTcp(_) => {}
            Self::Unix(_, file) => file.remove(),
        }
    }

    pub(crate) async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Self::Tcp(listener) | Self::InheritedTcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // A response is one small write: Nagle's algorithm would only delay it.
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

/// Lets the kernel drop every `SYN` and pass everything else, such as the end of a handshake. If that fails, a handshake
/// at the wrong instant is reset.
#[cfg(target_os = "linux")]
fn drop_new_handshakes(listener: &TcpListener) {
    use socket2::{SockFilter, SockRef};
    // A filter sees a segment from its TCP header on: byte 13 has the flags, and SYN is 2.
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

/// Removes the socket file of a killed process, which would block the bind. Keeps a socket that accepts connections, and
/// a file that is no socket.
async fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Stream>>),
}

impl Stream {
    pub(crate) const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether the peer has hung up and left nothing unread. Asks the system: what the runtime knows may be older. With TLS,
    /// a closing message counts as unread.
    pub(crate) fn has_hung_up(&self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let peeked = match self {
            Self::Tcp(stream) => SockRef::from(stream).peek(&mut byte),
            Self::Unix(stream) => SockRef::from(stream).peek(&mut byte),
            Self::Tls(stream) => return stream.get_ref().0.has_hung_up(),
        };
        match peeked {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Ready when there is something to read or the stream has ended. Needs no buffer.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.readable().await,
            Self::Unix(stream) => stream.readable().await,
            Self::Tls(stream) => match stream.get_ref() {
                // Decrypted bytes are already there.
                (_, session) if !session.wants_read() => Ok(()),
                (inner, _) => Box::pin(inner.readable()).await,
            },
        }
    }

    /// Writes all bytes within `at_most`.
    pub(crate) async fn send(&mut self, bytes: &[u8], at_most: Duration) -> io::Result<()> {
        let sent = async {
            self.write_all(bytes).await?;
            // TLS buffers what the kernel does not take. The other streams have nothing to flush.
            self.flush().await
        };
        let late = || Err(io::ErrorKind::TimedOut.into());
        within(at_most, sent).await.unwrap_or_else(late)
    }
}

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
    async fn a_stale_socket_file_is_replaced_and_one_in_use_is_not() {
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
