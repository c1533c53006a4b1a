//! What becomes of a connection once both sides have agreed to speak something else, such as WebSocket: bytes go both
//! ways, and nobody looks at them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Bytes;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};

use super::relay::Guards;
use crate::net::Shutdown;
use crate::net::Stream;

/// How long nobody may say anything: nine minutes longer than most keep-alives.
const SILENCE_MAX: Duration = Duration::from_mins(10);

/// Both ends, one of which is still to come.
#[derive(Debug)]
pub(super) struct Tunnel {
    pub(super) client: OnUpgrade,
    pub(super) upstream: Stream,
    /// What has come of the other protocol already.
    pub(super) first: Bytes,
    pub(super) guards: Guards,
}

impl Tunnel {
    /// Until one side ends it, or the server does, or nobody has said anything for long.
    pub(super) async fn run(self, shutdown: Shutdown) {
        let ended = tokio::select! {
            ended = self.join() => ended,
            () = shutdown.closing() => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "tunnel ended");
        }
    }

    async fn join(self) -> io::Result<()> {
        let Self { client, upstream, first, guards } = self;
        let _held = guards;
        let mut client = TokioIo::new(client.await.map_err(io::Error::other)?);
        client.write_all(&first).await?;
        let heard = Arc::new(AtomicU64::new(0));
        let mut upstream = Counted { stream: upstream, heard: heard.clone() };
        let joined = copy_bidirectional(&mut client, &mut upstream);
        tokio::select! {
            joined = joined => joined.map(|_| ()),
            () = silence(&heard) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Ready when nothing was heard for long: at least so long, at most twice.
async fn silence(heard: &AtomicU64) {
    let mut before = heard.load(Relaxed);
    loop {
        tokio::time::sleep(SILENCE_MAX).await;
        let now = heard.load(Relaxed);
        if now == before {
            return;
        }
        before = now;
    }
}

/// A stream that counts how often anything goes through it.
struct Counted {
    stream: Stream,
    heard: Arc<AtomicU64>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        self.heard.fetch_add(1, Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        self.heard.fetch_add(1, Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
