//! Limits each client of a gRPC server: `cargo run -p tidegate --example tonic --features tower`.

use std::net::SocketAddr;

use tidegate::Limiter;
use tidegate::tower::{ClientIp, RateLimitLayer};
use tonic::transport::Server;
use tonic::transport::server::TcpConnectInfo;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client_ip = ClientIp::new()
        .peer(|extensions| extensions.get::<TcpConnectInfo>()?.remote_addr().map(|peer| peer.ip()));
    let limit =
        RateLimitLayer::new(Limiter::new("10/min burst 3")?).name("health").client_ip(client_ip);
    // Stands for your own service; it answers `grpc.health.v1.Health/Check`.
    let (_, service) = tonic_health::server::health_reporter();

    let address = SocketAddr::from(([127, 0, 0, 1], 50051));
    println!(
        "http://{address}: 3 calls at once, then one every 6 seconds; refused with grpc-status 8"
    );
    println!(
        "printf '\\0\\0\\0\\0\\0' | curl -si --http2-prior-knowledge --data-binary @- --output - \\\n  \
         -H 'content-type: application/grpc' http://{address}/grpc.health.v1.Health/Check"
    );

    Server::builder().layer(limit).add_service(service).serve(address).await?;
    Ok(())
}
