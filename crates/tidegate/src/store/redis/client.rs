//! The way to Redis.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use tokio::sync::{OnceCell, oneshot};

use super::RedisOptions;
use super::question::{Outcome, Question};
use super::script::{self, By};
use crate::store::{StoreError, Trouble};

#[derive(Clone, Debug)]
pub(super) struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    options: RedisOptions,
    connection: OnceCell<MultiplexedConnection>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn start(options: RedisOptions) -> Result<Self, StoreError> {
        Ok(Self { inner: Arc::new(Inner { options, connection: OnceCell::new() }) })
    }

    /// Under way with the call; the future only waits.
    pub(super) fn submit(
        &self,
        question: Question,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send + 'static {
        let (done, answer) = oneshot::channel();
        let inner = self.inner.clone();
        tokio::spawn(async move {
            let _ = done.send(inner.ask(question).await);
        });
        async move {
            answer
                .await
                .unwrap_or_else(|_| Err(StoreError::new(Trouble::Disconnected, "shut down")))
        }
    }
}

impl Inner {
    async fn ask(&self, question: Question) -> Result<Outcome, StoreError> {
        let connect = || async {
            let client = redis::Client::open(self.options.url.as_str())?;
            client.get_multiplexed_async_connection().await
        };
        let failed = |error: redis::RedisError| StoreError::from_redis(&error.to_string());
        let mut connection =
            self.connection.get_or_try_init(connect).await.map_err(failed)?.clone();
        let questions = [question];
        let mut reply = script::call(&questions, By::Hash).query_async(&mut connection).await;
        if reply.as_ref().is_err_and(|e: &redis::RedisError| e.to_string().contains("NoScript")) {
            reply = script::call(&questions, By::Source).query_async(&mut connection).await;
        }
        let reply = reply.map_err(failed)?;
        let mut answers = script::read(&questions, reply)?;
        answers.pop().unwrap_or_else(|| Err(StoreError::new(Trouble::Protocol, "no answer")))
    }
}
