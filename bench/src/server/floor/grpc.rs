//! The rate limit service on tonic alone, as generated code would be: it decodes and encodes messages of the real
//! shape.

use std::convert::Infallible;
use std::future::Ready;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tidegate_bench::wire::rls::{
    Descriptor, DescriptorStatus, RateLimit, RateLimitRequest, RateLimitResponse, SERVICE, Span,
};
use tokio::net::TcpListener;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_prost::ProstCodec;

#[derive(Clone)]
struct Floor;

impl NamedService for Floor {
    const NAME: &'static str = SERVICE;
}

impl UnaryService<RateLimitRequest> for Floor {
    type Response = RateLimitResponse;
    type Future = Ready<Result<tonic::Response<RateLimitResponse>, Status>>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let status = |_: &Descriptor| DescriptorStatus {
            code: 1,
            current_limit: Some(RateLimit {
                requests_per_unit: 100,
                unit: 2,
                name: "api".to_owned(),
            }),
            limit_remaining: 19,
            duration_until_reset: Some(Span { seconds: 1 }),
        };
        let statuses = request.get_ref().descriptors.iter().map(status).collect();
        std::future::ready(Ok(tonic::Response::new(RateLimitResponse {
            overall_code: 1,
            statuses,
        })))
    }
}

impl Service<Request<Body>> for Floor {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let codec = ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
        Box::pin(async move { Ok(Grpc::new(codec).unary(Floor, request).await) })
    }
}

pub(super) async fn serve(listener: TcpListener) {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder().add_service(Floor).serve_with_incoming(incoming).await.expect("to serve");
}
