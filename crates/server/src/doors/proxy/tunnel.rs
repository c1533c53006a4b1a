//! An upgraded connection, such as a WebSocket: copies bytes in both directions.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};

use super::response_body::RequestGuards;
use crate::net::{Shutdown, Stream};

/// A tunnel without any traffic is closed after this time: nine minutes longer than most keep-alives.
const IDLE_MAX: Duration = Duration::from_mins(10);

/// The two ends. The client's is ready once its response is written.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: Stream,
    /// Bytes of the new protocol that arrived with the response head.
    pub(super) early_bytes: Bytes,
    pub(super) guards: RequestGuards,
}

impl Tunnel {
    /// Runs until one side closes it, the server shuts down, or it is idle for too long.
    pub(super) async fn run(self, shutdown: Shutdown) {
        let ended = tokio::select! {
            ended = self.copy() => ended,
            () = shutdown.closing() => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "tunnel ended");
        }
    }

    async fn copy(self) -> io::Result<()> {
        let Self { client, upstream, early_bytes, guards } = self;
        let _guards = guards;
        let mut client = TokioIo::new(client.await.map_err(io::Error::other)?);
        client.write_all(&early_bytes).await?;
        let transfers = Arc::new(AtomicU64::new(0));
        let mut upstream = CountedStream { stream: upstream, transfers: transfers.clone() };
        let copied = copy_bidirectional(&mut client, &mut upstream);
        tokio::select! {
            copied = copied => copied.map(|_| ()),
            () = idle(&transfers) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Ready once there was no traffic for [`IDLE_MAX`] to twice that.
async fn idle(transfers: &AtomicU64) {
    let mut before = transfers.load(Relaxed);
    loop {
        tokio::time::sleep(IDLE_MAX).await;
        let now = transfers.load(Relaxed);
        if now == before {
            return;
        }
        before = now;
    }
}

/// Counts the reads and writes of a stream.
struct CountedStream {
    stream: Stream,
    transfers: Arc<AtomicU64>,
}

impl AsyncRead for CountedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.transfers.fetch_add(1, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.transfers.fetch_add(1, Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
