//! One HTTP/1.1 connection to an upstream.
//!
//! hyper's connections are commonly driven by their own task, which costs every request two task switches. Here the
//! request that uses the connection drives it. A task is spawned only if the response arrives while the request body is
//! still being sent, because both have to go on.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Bytes;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use super::failure::Failure;
use super::upload::{Flow, Upload};
use crate::net::Stream;

/// The head of a response, and the read-ahead of its body.
const BUFFER_BYTES_MAX: usize = 64 << 10;

pub(crate) struct UpstreamConnection {
    sender: http1::SendRequest<Upload>,
    driver: http1::Connection<TokioIo<Stream>, Upload>,
    is_over: bool,
}

/// Why there is no response, and the request if the upstream cannot have seen it.
#[derive(Debug)]
pub(crate) struct SendError {
    pub(crate) why: Failure,
    pub(crate) unsent: Option<Request<Upload>>,
}

impl UpstreamConnection {
    pub(crate) async fn handshake(stream: Stream) -> Result<Box<Self>, Failure> {
        let mut http = http1::Builder::new();
        http.max_buf_size(BUFFER_BYTES_MAX);
        let handshake = http.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = handshake.map_err(Failure::broken)?;
        Ok(Box::new(Self { sender, driver, is_over: false }))
    }

    /// Reads and writes without blocking. The caller calls this again when woken.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.is_over {
            self.is_over = self.driver.poll_without_shutdown(cx).is_ready();
        }
    }

    /// Whether another request can be sent. Polls the connection to notice a close.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.is_over && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its response; `timeout` begins when the request is sent.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Upload>,
        timeout: Duration,
    ) -> Result<Response<Incoming>, Box<SendError>> {
        let flow = request.body().flow();
        let mut answer = pin!(self.sender.try_send_request(request));
        let (driver, is_over) = (&mut self.driver, &mut self.is_over);
        let answered = poll_fn(|cx| {
            if !*is_over {
                *is_over = driver.poll_without_shutdown(cx).is_ready();
            }
            match answer.as_mut().poll(cx) {
                // hyper had no error to report.
                Poll::Pending if *is_over => Poll::Ready(None),
                polled => polled.map(Some),
            }
        });
        match in_time(answered, flow.as_deref(), timeout).await? {
            Some(Ok(response)) => Ok(response),
            Some(Err(mut error)) => {
                let unsent = error.take_message();
                Err(Box::new(SendError { why: Failure::broken(error.into_error()), unsent }))
            }
            None => Err(Failure::Closed.into()),
        }
    }

    /// Drives the connection in a task until it is done, or for `timeout` after the returned sender is dropped.
    pub(crate) fn detach(mut self: Box<Self>, timeout: Duration) -> oneshot::Sender<()> {
        let (guard, dropped) = oneshot::channel();
        tokio::spawn(async move {
            let done = poll_fn(|cx| {
                self.drive(cx);
                if self.is_over { Poll::Ready(()) } else { Poll::Pending }
            });
            let abandoned = async {
                let _: Result<(), _> = dropped.await;
                tokio::time::sleep(timeout).await;
            };
            tokio::select! {
                () = done => {}
                () = abandoned => {}
            }
        });
        guard
    }

    /// The raw stream after an upgrade, and the bytes already read from it.
    pub(crate) async fn upgraded(mut self: Box<Self>) -> Option<(Stream, Bytes)> {
        if !self.is_over {
            poll_fn(|cx| self.driver.poll_without_shutdown(cx)).await.ok()?;
        }
        let parts = self.driver.into_parts();
        Some((parts.io.into_inner(), parts.read_buf))
    }
}

/// The outcome of an exchange within `timeout`, which restarts while the request body makes progress.
pub(crate) async fn in_time<T>(
    answered: impl Future<Output = T>,
    flow: Option<&Flow>,
    timeout: Duration,
) -> Result<T, Failure> {
    let (mut answered, mut frames) = (pin!(answered), 0);
    loop {
        if let Ok(answered) = tokio::time::timeout(timeout, answered.as_mut()).await {
            return Ok(answered);
        }
        match flow {
            Some(flow) if flow.frames() > frames => frames = flow.frames(),
            Some(flow) if flow.is_waiting() => return Err(Failure::ClientPaused),
            _ => return Err(Failure::ResponseTimeout),
        }
    }
}

impl SendError {
    /// The request, if it may be sent again.
    pub(crate) fn unsent(mut self: Box<Self>) -> Result<Request<Upload>, Box<Self>> {
        self.unsent.take().ok_or(self)
    }
}

impl From<Failure> for Box<SendError> {
    fn from(why: Failure) -> Self {
        Self::new(SendError { why, unsent: None })
    }
}

impl std::fmt::Debug for UpstreamConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UpstreamConnection").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
