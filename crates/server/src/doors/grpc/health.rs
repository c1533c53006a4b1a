//! `grpc.health.v1.Health`: serving until the server drains.

use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::{ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};

use crate::net::Shutdown;

/// The whole server, our service, and its name in envoyproxy/ratelimit.
const SERVICES: [&str; 3] = ["", super::reflection::SERVICE, "ratelimit"];

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct HealthCheckResponse {
    #[prost(enumeration = "ServingStatus", tag = "1")]
    status: i32,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, prost::Enumeration)]
#[repr(i32)]
enum ServingStatus {
    Unknown = 0,
    Serving = 1,
    NotServing = 2,
    ServiceUnknown = 3,
}

/// The unary method.
#[derive(Debug)]
pub(super) struct Check(pub(super) Shutdown);

/// The streaming method: sends a response when the status changes.
#[derive(Debug)]
pub(super) struct Watch(pub(super) Shutdown);

type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

impl UnaryService<HealthCheckRequest> for Check {
    type Response = HealthCheckResponse;
    type Future = Answer<HealthCheckResponse>;

    fn call(&mut self, request: Request<HealthCheckRequest>) -> Self::Future {
        let answer = if is_known(&request) {
            Ok(Response::new(response(status(&self.0))))
        } else {
            Err(Status::not_found("unknown service"))
        };
        Box::pin(async { answer })
    }
}

impl ServerStreamingService<HealthCheckRequest> for Watch {
    type Response = HealthCheckResponse;
    type ResponseStream = ReceiverStream<Result<HealthCheckResponse, Status>>;
    type Future = Answer<Self::ResponseStream>;

    fn call(&mut self, request: Request<HealthCheckRequest>) -> Self::Future {
        let (shutdown, known) = (self.0.clone(), is_known(&request));
        Box::pin(async move {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(async move {
                let first = if known { status(&shutdown) } else { ServingStatus::ServiceUnknown };
                if sender.send(Ok(response(first))).await.is_err() {
                    return;
                }
                tokio::select! {
                    () = shutdown.draining() => {}
                    () = sender.closed() => return,
                }
                // The stream then ends, because it would keep the connection open.
                if known && first == ServingStatus::Serving {
                    let _ = sender.send(Ok(response(ServingStatus::NotServing))).await;
                }
            });
            Ok(Response::new(ReceiverStream::new(receiver)))
        })
    }
}

fn is_known(request: &Request<HealthCheckRequest>) -> bool {
    SERVICES.contains(&request.get_ref().service.as_str())
}

fn status(shutdown: &Shutdown) -> ServingStatus {
    if shutdown.is_draining() { ServingStatus::NotServing } else { ServingStatus::Serving }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
