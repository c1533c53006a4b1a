//! The bytes between us and Redis: a TCP, Unix or TLS stream that counts what it wrote, and bounds what it reads.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::access::Access;
use crate::endpoint::Endpoint;

/// The longest reply. A batch's is a few kilobytes, a cluster's map of single slots about two megabytes.
const REPLY_BYTES_MAX: u64 = 4 << 20;

/// Any stream of bytes.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A stream with its meter.
pub(crate) struct MeteredStream {
    stream: Box<dyn Stream>,
    pub(crate) meter: Arc<Meter>,
}

/// What went over a wire. Its two ends are polled by one task.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    written: AtomicU64,
    /// Since the last reply was complete.
    read: AtomicU64,
    /// More than the usual bound, for a store that reads more at once; 0 for the usual one.
    reply_bytes_max: AtomicU64,
}

impl Meter {
    /// Bytes that were written so far: what comes after them has certainly not run.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Lets a reply be this long.
    pub(crate) fn allow_replies_of(&self, bytes: u64) {
        self.reply_bytes_max.store(bytes, Relaxed);
    }

    /// A reply is complete: the next may be as long.
    pub(crate) fn reply_ends(&self) {
        self.read.store(0, Relaxed);
    }
}

impl MeteredStream {
    pub(crate) async fn connect(endpoint: &Endpoint, access: &Access) -> io::Result<Self> {
        let stream: Box<dyn Stream> = match endpoint {
            Endpoint::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Endpoint::Tcp { host, port } => {
                let tcp = TcpStream::connect((host.as_str(), *port)).await?;
                tcp.set_nodelay(true)?;
                match &access.tls {
                    None => Box::new(tcp),
                    #[cfg(feature = "tls")]
                    Some(tls) => Box::new(tls.connect(host, tcp).await?),
                    #[cfg(not(feature = "tls"))]
                    Some(never) => match *never {},
                }
            }
        };
        Ok(Self { stream, meter: Arc::default() })
    }
}

impl AsyncRead for MeteredStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(task, into);
        let count = (into.filled().len() - before) as u64;
        let longest = self.meter.reply_bytes_max.load(Relaxed).max(REPLY_BYTES_MAX);
        if self.meter.read.fetch_add(count, Relaxed) + count > longest {
            return Poll::Ready(Err(io::Error::other("a reply without end")));
        }
        polled
    }
}

impl AsyncWrite for MeteredStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(task, bytes);
        if let Poll::Ready(Ok(count)) = polled {
            self.meter.written.fetch_add(count as u64, Relaxed);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(task)
    }
}
