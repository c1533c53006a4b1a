//! `grpc.health.v1.Health`: whether this server takes calls. It does until it is told to stop.

use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::server::{ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};

use crate::net::Shutdown;

/// The whole server, our service, and what envoyproxy/ratelimit calls it.
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

/// Answers once.
#[derive(Debug)]
pub(super) struct Check(pub(super) Shutdown);

/// Answers again when the answer changes.
#[derive(Debug)]
pub(super) struct Watch(pub(super) Shutdown);

type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

impl UnaryService<HealthCheckRequest> for Check {
    type Response = HealthCheckResponse;
    type Future = Answer<HealthCheckResponse>;

    fn call(&mut self, request: Request<HealthCheckRequest>) -> Self::Future {
        let answer = if is_known(&request) {
            Ok(Response::new(said(status(&self.0))))
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
            let (say, told) = mpsc::channel(1);
            tokio::spawn(async move {
                let first = if known { status(&shutdown) } else { ServingStatus::ServiceUnknown };
                if say.send(Ok(said(first))).await.is_err() {
                    return;
                }
                tokio::select! {
                    () = shutdown.draining() => {}
                    () = say.closed() => return,
                }
                // The end of the stream follows: who watches would hold the connection open otherwise.
                if known && first == ServingStatus::Serving {
                    let _ = say.send(Ok(said(ServingStatus::NotServing))).await;
                }
            });
            Ok(Response::new(ReceiverStream::new(told)))
        })
    }
}

fn is_known(request: &Request<HealthCheckRequest>) -> bool {
    SERVICES.contains(&request.get_ref().service.as_str())
}

fn status(shutdown: &Shutdown) -> ServingStatus {
    if shutdown.is_draining() { ServingStatus::NotServing } else { ServingStatus::Serving }
}

fn said(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}
