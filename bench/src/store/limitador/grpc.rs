//! Envoy's rate limit service on tonic, as generated code would be.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tidegate_bench::wire::rls::{Descriptor, RateLimitRequest, RateLimitResponse, SERVICE};
use tokio::net::TcpListener;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_prost::ProstCodec;

use super::Limiter;

type Answer<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl NamedService for Limiter {
    const NAME: &'static str = SERVICE;
}

impl UnaryService<RateLimitRequest> for Limiter {
    type Response = RateLimitResponse;
    type Future = Answer<tonic::Response<RateLimitResponse>, Status>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let (request, limiter) = (request.into_inner(), self.clone());
        Box::pin(async move {
            let pairs = |descriptor: Descriptor| {
                descriptor.entries.into_iter().map(|entry| (entry.key, entry.value)).collect()
            };
            let descriptors = request.descriptors.into_iter().map(pairs).collect();
            // A protobuf message without this field means one hit.
            let hits = u64::from(request.hits_addend.max(1));
            let is_limited = limiter.is_limited(&request.domain.into(), descriptors, hits).await;
            let overall_code = if is_limited { 2 } else { 1 };
            Ok(tonic::Response::new(RateLimitResponse { overall_code, statuses: Vec::new() }))
        })
    }
}

impl Service<Request<Body>> for Limiter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let codec = ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
        let limiter = self.clone();
        Box::pin(async move { Ok(Grpc::new(codec).unary(limiter, request).await) })
    }
}

pub(super) async fn serve(listener: TcpListener, limiter: Limiter) {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder().add_service(limiter).serve_with_incoming(incoming).await.expect("to serve");
}
