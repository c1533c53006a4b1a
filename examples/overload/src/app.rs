//! The overloaded app: one query per request, over a small connection pool.
//!
//! It has a common flaw: while the pool is busy, requests wait in an unbounded queue, and their work continues after the
//! client has disconnected.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use deadpool_postgres::{Manager, Pool, Runtime, Status};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::NoTls;

use crate::{Fallible, database};

/// Connections to the database, and so the maximum of concurrent queries.
pub(crate) const POOL: u32 = 8;

/// A request that waits for a connection for this long is answered with 503. Longer than clients wait, as is usual: the
/// default of most pools is 30 s.
const WAIT: Duration = Duration::from_secs(2);

/// An index lookup and a sleep of 20 ms, which stands for disks and locks: the pool is the bottleneck, not the CPU.
const QUERY: &str = "SELECT count(*), sum(amount) FROM orders, pg_sleep(0.02) WHERE customer = $1";

struct App {
    pool: Pool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    under_way: AtomicU64,
    answered: AtomicU64,
    failed: AtomicU64,
}

/// The counters that the app serves at `/stats`.
#[derive(Clone, Copy, Serialize, Deserialize, Debug)]
pub(crate) struct Stats {
    pub(crate) under_way: u64,
    pub(crate) answered: u64,
    /// Answers with a 5xx, including those whose client has disconnected.
    pub(crate) failed: u64,
}

impl Stats {
    /// What was counted since `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            under_way: self.under_way,
            answered: self.answered - before.answered,
            failed: self.failed - before.failed,
        }
    }
}

/// Prints its address and serves until it is killed.
pub(crate) async fn serve(folder: &Path) -> Fallible<()> {
    let manager = Manager::new(database::config(folder), NoTls);
    let pool = Pool::builder(manager)
        .max_size(POOL as usize)
        .wait_timeout(Some(WAIT))
        .runtime(Runtime::Tokio1)
        .build()?;
    let app = Arc::new(App { pool, counts: Counts::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("the app answers on http://{}", listener.local_addr()?);
    loop {
        // A failed accept, such as without free file descriptors, does not affect open connections.
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(app.clone(), stream));
        }
    }
}

async fn serve_connection(app: Arc<App>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<Incoming>| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(app.answer(request.uri().path()).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

impl App {
    async fn answer(self: Arc<Self>, path: &str) -> Response<Full<Bytes>> {
        match path {
            "/stats" => json(&self.counts.stats()),
            "/pressure" => json(&serde_json::json!({ "pressure": pressure(&self.pool.status()) })),
            _ => match path.strip_prefix("/customers/").and_then(|it| it.parse().ok()) {
                Some(customer) => self.counted_total(customer).await,
                None => plain(StatusCode::NOT_FOUND, "try /customers/42\n".to_owned()),
            },
        }
    }

    /// Runs in its own task, so that it continues if the client disconnects, as in most frameworks.
    async fn counted_total(self: Arc<Self>, customer: i32) -> Response<Full<Bytes>> {
        let task = tokio::spawn(async move {
            self.counts.under_way.fetch_add(1, Relaxed);
            let total = self.total(customer).await;
            let counter = if total.is_ok() { &self.counts.answered } else { &self.counts.failed };
            counter.fetch_add(1, Relaxed);
            self.counts.under_way.fetch_sub(1, Relaxed);
            total
        });
        match task.await {
            Ok(Ok(total)) => plain(StatusCode::OK, total),
            Ok(Err(error)) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
            Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }

    async fn total(&self, customer: i32) -> Fallible<String> {
        let database = self.pool.get().await?;
        let query = database.prepare_cached(QUERY).await?;
        let row = database.query_one(&query, &[&customer]).await?;
        let (count, sum): (i64, Option<i64>) = (row.get(0), row.get(1));
        Ok(format!("{count} orders, {} in all\n", sum.unwrap_or(0)))
    }
}

impl Counts {
    fn stats(&self) -> Stats {
        Stats {
            under_way: self.under_way.load(Relaxed),
            answered: self.answered.load(Relaxed),
            failed: self.failed.load(Relaxed),
        }
    }
}

/// The share of requests that wait for a connection: 0 if none waits, 1/2 if as many wait as are served.
fn pressure(pool: &Status) -> f64 {
    let waiting = pool.waiting as f64;
    waiting / (waiting + pool.max_size as f64)
}

fn json(value: &impl Serialize) -> Response<Full<Bytes>> {
    match serde_json::to_string(value) {
        Ok(text) => plain(StatusCode::OK, text),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_is_the_share_that_waits() {
        for (waiting, pressed) in [(0, 0.0), (8, 0.5), (24, 0.75)] {
            let status = Status { max_size: 8, size: 8, available: 0, waiting };
            assert!((pressure(&status) - pressed).abs() < 1e-9, "{waiting} wait");
        }
    }
}
