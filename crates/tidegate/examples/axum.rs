//! Limits each client of an axum server: `cargo run -p tidegate --example axum --features axum`.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate::Limiter;
use tidegate::tower::{ClientIp, RateLimitLayer};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limit = RateLimitLayer::new(Limiter::new("10/min burst 3")?)
        .name("hello")
        .client_ip(ClientIp::new().trust("127.0.0.1")?) // as if a proxy ran on this machine
        .skip(|request| request.uri.path() == "/healthz");
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(limit);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    println!("{url}: 3 requests at once, then one every 6 seconds");
    println!("curl -i {url}");
    println!(
        "curl -i {url} -H 'x-forwarded-for: 203.0.113.7'   # another client, behind the proxy"
    );

    // With the connect info, or the layer knows no address and answers 500.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}
