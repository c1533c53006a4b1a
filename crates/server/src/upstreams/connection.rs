//! One connection to an upstream.
//!
//! hyper's connections want to be driven, commonly by a task of their own; then every request goes through two more
//! task switches, one there and one back. Here whoever waits for something drives the connection itself. Only where a
//! body is still on its way when the answer comes, both have to go on by themselves, and a task is made.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;

use super::failure::Failure;
use super::upload::{Flow, Upload};
use crate::net::Stream;

/// How large an answer's head may be, and how much of a body is read ahead.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// A connection, and what is needed to drive it.
pub(crate) struct UpstreamConnection {
    sender: http1::SendRequest<Upload>,
    driver: http1::Connection<TokioIo<Stream>, Upload>,
    is_over: bool,
}

/// Why there is no answer, and the request if nobody can have looked at it.
#[derive(Debug)]
pub(crate) struct SendError {
    pub(crate) why: Failure,
    pub(crate) unsent: Option<Request<Upload>>,
}

impl UpstreamConnection {
    pub(crate) async fn over(stream: Stream) -> Result<Box<Self>, Failure> {
        let mut http = http1::Builder::new();
        http.max_buf_size(BUFFER_BYTES_MAX);
        let shaken = http.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = shaken.map_err(Failure::broken)?;
        Ok(Box::new(Self { sender, driver, is_over: false }))
    }

    /// Reads and writes what can be; whoever waits for something to come of it calls this again when woken.
    pub(crate) fn drive(&mut self, cx: &mut Context<'_>) {
        if !self.is_over {
            self.is_over = self.driver.poll_without_shutdown(cx).is_ready();
        }
    }

    /// Whether another request can be sent. Looks at the connection: one that was closed meanwhile is noticed.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        !self.is_over && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer, for `timeout` once the request has left.
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
                // It would have said why.
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

    /// Goes on in a task of its own, until it is done, or for `timeout` once what is returned was dropped.
    pub(crate) fn detach(mut self: Box<Self>, timeout: Duration) -> oneshot::Sender<()> {
        let (guard, dropped) = oneshot::channel();
        tokio::spawn(async move {
            let done = poll_fn(|cx| {
                self.drive(cx);
                if self.is_over { Poll::Ready(()) } else { Poll::Pending }
            });
            let given_up = async {
                let _: Result<(), _> = dropped.await;
                tokio::time::sleep(timeout).await;
            };
            tokio::select! {
                () = done => {}
                () = given_up => {}
            }
        });
        guard
    }

    /// The bare connection once both sides have agreed to speak something else, and what of that has come already.
    pub(crate) async fn upgraded(mut self: Box<Self>) -> Option<(Stream, Bytes)> {
        if !self.is_over {
            poll_fn(|cx| self.driver.poll_without_shutdown(cx)).await.ok()?;
        }
        let parts = self.driver.into_parts();
        Some((parts.io.into_inner(), parts.read_buf))
    }
}

/// What comes of an exchange within `timeout`; a long body that goes on is no silence.
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
