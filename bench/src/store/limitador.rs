//! limitador's library behind an HTTP and a gRPC server, in a process of its own. limitador-server is not on crates.io: this
//! calls the library as it does, with the same limit and context, and does nothing else.

mod grpc;
mod http;

use std::collections::HashMap;
use std::sync::Arc;

use limitador::limit::{Context, Limit, Namespace};
use limitador::storage::AsyncCounterStorage;
use limitador::storage::redis::{AsyncRedisStorage, CachedRedisStorageBuilder};
use limitador::{AsyncRateLimiter, RateLimiter};
use tokio::net::TcpListener;

use crate::contender::DOMAIN;

/// No run uses this up. Counted in windows of a minute.
const PER_MINUTE: u64 = 1_000_000_000;

/// Counters that it keeps in memory: twice as many as are asked for.
const COUNTERS_MAX: u64 = 200_000;

#[derive(Clone)]
enum Limiter {
    Memory(Arc<RateLimiter>),
    Redis(Arc<AsyncRateLimiter>),
}

impl Limiter {
    /// With one counter for each user, whose identifier is in the first descriptor, as in requests of Envoy. Without
    /// conditions, which would cost it more.
    async fn open(storage: &str, redis: &str) -> Self {
        let user = "descriptors[0].user".try_into().expect("a variable");
        let limit = Limit::new(DOMAIN, PER_MINUTE, 60, [], [user]);
        let storage: Box<dyn AsyncCounterStorage> = match storage {
            "memory" => {
                let limiter = RateLimiter::new(COUNTERS_MAX);
                limiter.add_limit(limit);
                return Self::Memory(Arc::new(limiter));
            }
            "plain" => Box::new(AsyncRedisStorage::new(redis).await.expect("a Redis")),
            _ => Box::new(CachedRedisStorageBuilder::new(redis).build().await.expect("a Redis")),
        };
        let limiter = AsyncRateLimiter::new_with_storage(storage);
        limiter.add_limit(limit);
        Self::Redis(Arc::new(limiter))
    }

    /// Whether a request is limited. It counts if not.
    async fn is_limited(
        &self,
        namespace: &Namespace,
        descriptors: Vec<HashMap<String, String>>,
        hits: u64,
    ) -> bool {
        let mut context = Context::default();
        context.list_binding("descriptors".to_owned(), descriptors);
        let answer = match self {
            Self::Memory(limiter) => {
                limiter.check_rate_limited_and_update(namespace, &context, hits)
            }
            Self::Redis(limiter) => {
                limiter.check_rate_limited_and_update(namespace, &context, hits).await
            }
        };
        answer.expect("an answer").limited
    }
}

/// Serves both doors until the process ends. `storage` is `memory`, `plain` or `cached`.
pub(crate) fn run(storage: &str, redis: &str, [http, grpc]: [u16; 2]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let limiter = Limiter::open(storage, redis).await;
        let listen = async |port| TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
        let (http, grpc) = (listen(http).await, listen(grpc).await);
        tokio::join!(http::serve(http, limiter.clone()), grpc::serve(grpc, limiter));
    });
}
