//! The answer that is under way.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;
use pin_project_lite::pin_project;

use super::headers::Report;
use super::watched::Watched;

pin_project! {
    /// The answer of a [`RateLimit`](super::RateLimit): the service's, with headers added, or a refusal.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use http::{Request, Response};
    /// use tidegate::{Limiter, tower::{Key, RateLimitLayer, ResponseFuture}};
    /// use tower::{Layer, Service, ServiceExt, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limit = RateLimitLayer::new(Limiter::new("5/h")?).key(Key::path());
    /// let mut service = limit.layer(service_fn(async |_: Request<()>| {
    ///     Ok::<_, Infallible>(Response::new(String::from("hello")))
    /// }));
    /// let future: ResponseFuture<_, String> = service.ready().await?.call(Request::new(()));
    /// assert_eq!(future.await?.headers()["x-ratelimit-remaining"], "4");
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, B> {
        #[pin]
        answer: Answer<F, B>,
    }
}

pin_project! {
    #[project = AnswerPinned]
    #[derive(Debug)]
    enum Answer<F, B> {
        Later { #[pin] inner: F, report: Option<Report>, watched: Watched },
        Now { response: Option<Response<B>> },
    }
}

impl<F, B> ResponseFuture<F, B> {
    pub(super) fn later(inner: F, report: Option<Report>, watched: Watched) -> Self {
        Self { answer: Answer::Later { inner, report, watched } }
    }

    pub(super) fn now(response: Response<B>) -> Self {
        Self { answer: Answer::Now { response: Some(response) } }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (inner, report, watched) = match self.project().answer.project() {
            AnswerPinned::Later { inner, report, watched } => (inner, report, watched),
            // Polled again after its answer, it has none to give.
            AnswerPinned::Now { response } => {
                return response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)));
            }
        };
        let answer = inner.poll(context).map_ok(|mut response| {
            if let Some(report) = report {
                report.write(response.headers_mut());
            }
            response
        });
        if let Poll::Ready(answer) = &answer {
            watched.done(answer.as_ref().is_ok_and(|it| !it.status().is_server_error()));
        }
        answer
    }
}
