//! Finds the handler of a request by its path and method.
//!
//! Not axum's router: its boxes and extensions were half of all allocations of a request, and took 4 to 12 % of the door's
//! throughput.

use std::convert::Infallible;
use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::header::{ALLOW, CONTENT_LENGTH, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use percent_encoding::percent_decode_str;
use tidegate::Permit;
use tidegate_request::Peer;

use super::Api;
use super::admin::require_own_host;
use crate::dashboard::EventStream;
use crate::doors::shared::Problem;
use crate::logs::trace::Trace;
use crate::net::body::RequestBody;
use crate::net::http::{Caller, IfHungUp};

/// The body of an answer.
#[derive(Debug)]
pub(crate) enum ApiBody {
    Whole(Full<Bytes>),
    /// The same bytes in every answer, such as a file of the page.
    Shared(Full<Bytes>),
    Events(EventStream),
    Permit(PermitBody),
}

impl ApiBody {
    /// The bytes that this answer alone holds.
    pub(super) fn held_bytes(&self) -> usize {
        let bytes = match self {
            Self::Whole(body) => body.size_hint().lower(),
            Self::Shared(_) => 0,
            Self::Events(events) => events.snapshot_bytes(),
            Self::Permit(body) => body.size_hint().lower(),
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Self::Whole(body) | Self::Shared(body) => Pin::new(body).poll_frame(cx),
            Self::Events(events) => Pin::new(events).poll_frame(cx),
            Self::Permit(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) | Self::Shared(body) => body.is_end_stream(),
            Self::Events(events) => events.is_end_stream(),
            Self::Permit(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) | Self::Shared(body) => body.size_hint(),
            Self::Events(events) => events.size_hint(),
            Self::Permit(body) => body.size_hint(),
        }
    }
}

pub(super) type HandlerResult = Result<Response<ApiBody>, Problem>;

/// What a handler gets. A future that holds all of it is large: those of frequent requests take what they need.
pub(super) struct ApiRequest {
    pub(super) api: Arc<Api>,
    pub(super) peer: Peer,
    pub(super) params: Params,
    pub(super) head: Parts,
    pub(super) body: RequestBody,
}

/// The parameters of a path, decoded.
pub(super) struct Params(Vec<String>);

type HandlerFuture = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;
type Handler = Box<dyn Fn(ApiRequest) -> HandlerFuture + Send + Sync>;

/// The handlers of one path.
#[derive(Default)]
pub(super) struct Methods {
    handlers: Vec<(Method, Handler)>,
    /// For all other methods.
    any: Option<Handler>,
    /// Whether the host of a request is not checked.
    is_for_any_host: bool,
}

/// A path, such as `/v1/pressure/{target}`, and its handlers.
pub(super) type Route = (&'static str, Methods);

pub(crate) struct Router {
    paths: matchit::Router<Methods>,
    api: Arc<Api>,
}

impl Router {
    pub(super) fn new(api: Api, routes: impl IntoIterator<Item = Route>) -> Result<Self, String> {
        let mut paths = matchit::Router::new();
        for (path, methods) in routes {
            paths.insert(path, methods).map_err(|error| format!("route {path}: {error}"))?;
        }
        Ok(Self { paths, api: Arc::new(api) })
    }

    pub(super) fn route(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> impl Future<Output = Response<ApiBody>> + Send + use<> {
        let is_head = request.method() == Method::HEAD;
        let trace = Trace::from_headers(request.headers());
        let handling = self.handle(request, caller);
        let mut handling = handling.unwrap_or_else(|problem| Box::pin(ready(Err(problem))));
        if let Some(trace) = trace {
            handling = Box::pin(trace.around(handling));
        }
        async move {
            let answered = handling.await;
            let response = answered.unwrap_or_else(|problem| whole(problem.into_response()));
            if is_head { without_body(response) } else { response }
        }
    }

    fn handle(
        &self,
        request: Request<Incoming>,
        caller: &Caller,
    ) -> Result<HandlerFuture, Problem> {
        let (peer, activity) = (caller.client.peer, caller.activity.clone());
        let (head, body) = request.into_parts();
        let body = RequestBody { body, activity };
        let path = head.uri.path();
        let found = self.paths.at(path).map_err(|_| Problem::unknown_path(path))?;
        let Some(handler) = found.value.handler(&head.method) else {
            let mut response = Problem::wrong_method(&head.method, path).into_response();
            response.headers_mut().insert(ALLOW, found.value.allowed());
            return Ok(Box::pin(ready(Ok(whole(response)))));
        };
        if !found.value.is_for_any_host {
            require_own_host(&self.api.app, peer, &head)?;
        }
        let params = found.params.iter().map(|(name, value)| decode(name, value));
        let params = Params(params.collect::<Result<_, _>>()?);
        Ok(handler(ApiRequest { api: self.api.clone(), peer, params, head, body }))
    }
}

/// A parameter of the path, which may be percent-encoded.
fn decode(name: &str, value: &str) -> Result<String, Problem> {
    let decoded = percent_decode_str(value).decode_utf8();
    let decoded = decoded.map_err(|_| Problem::bad_field(name, "is not valid UTF-8"))?;
    Ok(decoded.into_owned())
}

/// The answer to HEAD: the head of what GET gets. The stream of a handler is dropped.
fn without_body(response: Response<ApiBody>) -> Response<ApiBody> {
    let (mut head, body) = response.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.entry(CONTENT_LENGTH).or_insert_with(|| length.into());
    }
    whole(Response::from_parts(head, Bytes::new()))
}

/// A response with a complete body.
pub(super) fn whole(response: Response<Bytes>) -> Response<ApiBody> {
    response.map(|body| ApiBody::Whole(Full::new(body)))
}

/// A response that hands a permit out, unless the client has hung up.
pub(super) fn with_permit(response: Response<ApiBody>, permit: Permit) -> Response<ApiBody> {
    let permit = Arc::new(Mutex::new(Some(permit)));
    let body_permit = permit.clone();
    let mut response = response.map(|body| match body {
        ApiBody::Whole(body) => ApiBody::Permit(PermitBody { body, permit: Some(body_permit) }),
        other => other,
    });
    let release = move || drop(take(&permit));
    response.extensions_mut().insert(IfHungUp::new(release));
    response
}

/// A body that hands a permit out. If the connection drops it unread, the permit is released.
#[derive(Debug)]
pub(crate) struct PermitBody {
    body: Full<Bytes>,
    /// `None` once it is the client's.
    permit: Option<Arc<Mutex<Option<Permit>>>>,
}

fn take(permit: &Mutex<Option<Permit>>) -> Option<Permit> {
    permit.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Body for PermitBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Self { body, permit } = self.get_mut();
        if let Some(permit) = permit.take() {
            match take(&permit) {
                Some(permit) => drop(permit.into_id()),
                // It was released: who still reads must not take it for held. The body is cut off, and so no answer.
                None => return Poll::Ready(None),
            }
        }
        Pin::new(body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub(super) fn get<F>(handler: impl Fn(ApiRequest) -> F + Send + Sync + 'static) -> Methods
where
    F: Future<Output = HandlerResult> + Send + 'static,
{
    Methods::default().on(Method::GET, handler)
}

pub(super) fn post<F>(handler: impl Fn(ApiRequest) -> F + Send + Sync + 'static) -> Methods
where
    F: Future<Output = HandlerResult> + Send + 'static,
{
    Methods::default().on(Method::POST, handler)
}

/// Answers every method.
pub(super) fn any<F>(handler: impl Fn(ApiRequest) -> F + Send + Sync + 'static) -> Methods
where
    F: Future<Output = HandlerResult> + Send + 'static,
{
    Methods { any: Some(boxed(handler)), ..Methods::default() }
}

impl Methods {
    pub(super) fn on<F>(
        mut self,
        method: Method,
        handler: impl Fn(ApiRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = HandlerResult> + Send + 'static,
    {
        self.handlers.push((method, boxed(handler)));
        self
    }

    /// Takes requests for any host: a proxy may ask with the host of its client's request, a load balancer by any name.
    pub(super) fn for_any_host(mut self) -> Self {
        self.is_for_any_host = true;
        self
    }

    fn handler(&self, method: &Method) -> Option<&Handler> {
        // HEAD is a GET whose body is not sent.
        let method = if *method == Method::HEAD { &Method::GET } else { method };
        let own = self.handlers.iter().find(|(own, _)| own == method);
        own.map(|(_, handler)| handler).or(self.any.as_ref())
    }

    /// The value of `Allow`.
    fn allowed(&self) -> HeaderValue {
        let names = self.handlers.iter().map(|(method, _)| match *method {
            Method::GET => "GET,HEAD",
            ref other => other.as_str(),
        });
        let names = names.collect::<Vec<_>>().join(",");
        HeaderValue::try_from(names).unwrap_or_else(|_| HeaderValue::from_static(""))
    }
}

fn boxed<F>(handler: impl Fn(ApiRequest) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = HandlerResult> + Send + 'static,
{
    Box::new(move |request| Box::pin(handler(request)))
}

impl Params {
    /// The parameter at an index; the first has index 0.
    pub(super) fn at(&self, index: usize) -> &str {
        self.0.get(index).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_parameters_are_percent_decoded_to_utf8() {
        assert_eq!(decode("key", "a%2Fb%20%c3%a9").unwrap(), "a/b é");
        assert_eq!(decode("key", "100%").unwrap(), "100%");
        let problem = decode("key", "%ff").unwrap_err();
        assert_eq!((problem.field(), problem.detail()), (Some("key"), "`key` is not valid UTF-8"));
    }
}
