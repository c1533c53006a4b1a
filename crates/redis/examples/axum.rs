//! One limit for all replicas of an axum server, over one Redis. Start three of them:
//! `cargo run -p tidegate-redis --example axum -- 3000`, then with 3001 and 3002.

use std::net::SocketAddr;

use axum::{Router, routing::get};
use tidegate::tower::{ClientIp, RateLimitLayer};
use tidegate::{BreakerOptions, Engine, OnStoreError, Policy, Store};
use tidegate_redis::{RedisOptions, RedisStore};

/// One replica. All that share the store share the limit of each client.
pub(crate) fn app(
    store: impl Store + 'static,
    limit: &str,
) -> Result<Router, Box<dyn std::error::Error>> {
    // Without Redis nobody is let in: 503. By default each replica would go on with its share of the limit.
    let api = Policy::try_from(limit)?.on_store_error(OnStoreError::DENY);
    let engine = Engine::builder().store(store).policy("api", api).build()?;
    let limit = RateLimitLayer::new(engine.policy("api")?)
        .client_ip(ClientIp::new().trust("127.0.0.1")?) // as if a load balancer ran on this machine
        .skip(|request| request.uri.path() == "/healthz");
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/healthz", get(|| async { "ok\n" }))
        .layer(limit))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).map_or(Ok(3000), |port| port.parse())?;
    let breaker = Some(BreakerOptions::default()); // a Redis that hangs is not waited for
    let redis = RedisOptions { breaker, ..RedisOptions::new("redis://127.0.0.1:6379") };
    let app = app(RedisStore::new(redis)?, "10/min burst 3")?;

    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    println!(
        "curl -i http://{}/   # 3 requests at once, on all replicas together",
        listener.local_addr()?
    );
    // With the connect info, or the layer knows no address and answers 500.
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await?;
    Ok(())
}
