//! Log lines that clients cause: refusals, checks that the store failed to decide, wrong secrets, clients at their
//! bound, fast URLs at their limit, requests that come back.
//!
//! An attack causes millions of them and must not fill the log: ten lines a second of each kind are written, the others
//! are counted, and the next line has the count. Keys and clients are logged as a [label](KeyLabels): a hash, unless the
//! operator wants them readable.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use tidegate::{Key, LimitError, Limiter, MemoryStore, SystemClock};

use super::labels::KeyLabels;
use super::request_id::RequestId;
use crate::metrics::{Door, Outcome, Status};
use tidegate_core::text::printable;
use tidegate_request::{ClientRequest, Peer};

/// Per kind of line.
const RATE: &str = "10/s burst 20";
/// Of lines that say what to change: once is enough for a while.
const HINT_RATE: &str = "2/min burst 1";

#[derive(Debug)]
pub(crate) struct Events {
    labels: KeyLabels,
    refusals: LineLimiter,
    without_store: LineLimiter,
    wrong_secrets: LineLimiter,
    per_client: LineLimiter,
    fast_urls: LineLimiter,
    loops: LineLimiter,
}

/// What a line says about a check.
#[derive(Clone, Copy)]
pub(crate) struct CheckLine<'a> {
    pub(crate) policy: &'a str,
    pub(crate) key: Key<'a>,
    pub(crate) request: Option<RequestLine<'a>>,
}

/// What a line says about the request behind a check, if a door saw it.
#[derive(Clone, Copy)]
pub(crate) struct RequestLine<'a> {
    /// The client's address, as limits count it.
    pub(crate) client: &'a str,
    pub(crate) method: &'a str,
    /// Without the query, which may hold secrets.
    pub(crate) path: &'a str,
    /// The route that matched.
    pub(crate) route: Option<&'a str>,
    pub(crate) id: Option<RequestId<&'a str>>,
}

/// Longer paths are cut.
const PATH_CHARS_MAX: usize = 200;

/// The rate limit of one kind of line.
#[derive(Debug)]
struct LineLimiter {
    limiter: Option<Limiter<SystemClock>>,
    /// Dropped since the last line that was written.
    dropped: AtomicU64,
    dropped_total: AtomicU64,
}

impl Events {
    pub(crate) fn new(labels: KeyLabels) -> Self {
        let store = small_store();
        let limiter = |name, rate| LineLimiter::new(name, rate, &store);
        Self {
            labels,
            refusals: limiter("refusals", RATE),
            without_store: limiter("without_store", RATE),
            wrong_secrets: limiter("wrong_secrets", RATE),
            per_client: limiter("per_client", RATE),
            fast_urls: limiter("fast_urls", HINT_RATE),
            loops: limiter("loops", HINT_RATE),
        }
    }

    /// Logs a wrong password or token; never what was sent.
    #[cold]
    pub(crate) fn wrong_secret(&self, door: Door, peer: Peer) {
        if let Some(lines_dropped) = self.wrong_secrets.permit() {
            let (door, peer) = (door.as_str(), self.labels.public(peer.to_string()));
            tracing::warn!(door, peer, lines_dropped, "wrong password or token");
        }
    }

    /// Warns once about a peer that speaks the PROXY protocol and is not trusted: an operator who sets up a load balancer
    /// finds the reason, and a port scan does not fill the log.
    pub(crate) fn untrusted_balancer(&self, peer: IpAddr) {
        static HAS_WARNED: AtomicBool = AtomicBool::new(false);
        if !HAS_WARNED.swap(true, Relaxed) {
            tracing::warn!(
                peer = self.labels.public(peer.to_string()),
                "connection refused: with `proxy_protocol` only peers in client_ip.trusted_proxies may connect"
            );
        }
    }

    /// Warns once about `X-Forwarded-For` from an untrusted peer: all clients behind it then count as one.
    pub(crate) fn untrusted_proxy(&self, peer: IpAddr) {
        static HAS_WARNED: AtomicBool = AtomicBool::new(false);
        if !HAS_WARNED.swap(true, Relaxed) {
            tracing::warn!(
                peer = self.labels.public(peer.to_string()),
                "ignored X-Forwarded-*: the peer is not among client_ip.trusted_proxies"
            );
        }
    }

    /// Warns once about a header in which `trusted_hops` finds no client: all clients of its peer then count as one.
    pub(crate) fn uncounted_proxies(&self, seen: &ClientRequest<'_>, peer: Peer) {
        static HAS_WARNED: AtomicBool = AtomicBool::new(false);
        let is_new = !HAS_WARNED.load(Relaxed) && seen.client_ip.lacks_hops(&seen.headers);
        if is_new && !HAS_WARNED.swap(true, Relaxed) {
            tracing::warn!(
                peer = self.labels.public(peer.to_string()),
                "took the peer for the client: X-Forwarded-For or Forwarded has fewer addresses than \
                 client_ip.trusted_hops, or one that cannot be read"
            );
        }
    }

    /// Logs a client that has reached its part of a bound.
    #[cold]
    pub(crate) fn too_many_of_client(&self, door: Door, client: &str, bound: &'static str) {
        if let Some(lines_dropped) = self.per_client.permit() {
            let (door, client) = (door.as_str(), self.labels.public(client.to_owned()));
            tracing::warn!(
                door,
                client,
                bound,
                lines_dropped,
                "one client has reached its part of a bound: per_client sets it"
            );
        }
    }

    /// Logs that a URL was refused although its responses are fast. Many asked for it, so that it is nobody's secret.
    #[cold]
    pub(crate) fn refused_fast_url(&self, policy: &str, url: &[u8], per_minute: u64) {
        if let Some(lines_dropped) = self.fast_urls.permit() {
            tracing::warn!(
                policy = printable(policy),
                url = self.labels.public(printable(&String::from_utf8_lossy(url))),
                per_minute,
                lines_dropped,
                "a URL with fast responses has reached its limit, which all clients together share: raise it with \
                 --adaptive-max RATE or --adaptive-max none, or in a file with the policy's `limit`"
            );
        }
    }

    /// Logs that a request came back to the proxy that had passed it on.
    #[cold]
    pub(crate) fn came_back(&self, upstreams: &str) {
        if let Some(lines_dropped) = self.loops.permit() {
            tracing::error!(
                upstreams,
                lines_dropped,
                "a request came back to the proxy that had passed it on: an upstream leads to the proxy itself, and \
                 such requests get a 508. Give the site's own address as upstream"
            );
        }
    }

    /// Logs a notable outcome of a check. `cause` is why the store does not serve.
    #[cold]
    pub(crate) fn record(
        &self,
        check: &CheckLine<'_>,
        outcome: &Outcome<'_>,
        cause: impl FnOnce() -> Option<String>,
    ) {
        if let (Some(source), Some(kind)) = (outcome.source, outcome.store_error)
            && let Some(lines_dropped) = self.without_store.permit()
        {
            tracing::warn!(
                policy = printable(check.policy),
                decided_by = source.as_str(),
                allowed = matches!(outcome.status, Status::Allowed | Status::ShadowDenied),
                store_error = kind.as_str(),
                cause = cause(),
                lines_dropped,
                "decided without the store"
            );
        }
        if outcome.status == Status::Denied
            && let Some(lines_dropped) = self.refusals.permit()
        {
            let request = check.request;
            let path = |request: RequestLine<'_>| -> String {
                self.labels.public(printable(request.path).chars().take(PATH_CHARS_MAX).collect())
            };
            tracing::info!(
                policy = printable(check.policy),
                limit = printable(outcome.binding),
                key = self.labels.label(check.key),
                client = request.map(|it| self.labels.label(Key::One(it.client.as_bytes()))),
                method = request.map(|it| printable(it.method)),
                path = request.map(path),
                route = request.and_then(|it| it.route).map(printable),
                request_id = request.and_then(|it| it.id).map(|id| self.request_id(id)),
                retry_after_ms = outcome.retry_after_us.map(|us| us.div_ceil(1000)),
                lines_dropped,
                "refused"
            );
        }
    }

    /// One that was made here says nothing of anybody.
    fn request_id(&self, id: RequestId<&str>) -> String {
        match id {
            RequestId::Brought(text) => self.labels.public(printable(text)),
            RequestId::New(_) => id.to_string(),
        }
    }

    /// All lines dropped so far, by kind.
    pub(crate) fn dropped_lines(&self) -> [(&'static str, u64); 6] {
        [
            ("refused", &self.refusals),
            ("without-store", &self.without_store),
            ("wrong-secret", &self.wrong_secrets),
            ("per-client", &self.per_client),
            ("fast-url", &self.fast_urls),
            ("loop", &self.loops),
        ]
        .map(|(event, limiter)| (event, limiter.dropped_total.load(Relaxed)))
    }

    /// How keys are named in lines, and on the dashboard.
    pub(crate) const fn labels(&self) -> &KeyLabels {
        &self.labels
    }
}

/// For limiters of few keys: a store of the default size takes 200 kB before its first key.
fn small_store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::with_max_bytes(0))
}

/// Limits lines of one kind.
pub(crate) fn line_limiter(rate: &str) -> Option<Limiter> {
    Limiter::builder(rate).store(small_store()).build().ok()
}

impl LineLimiter {
    fn new(name: &str, rate: &str, store: &Arc<MemoryStore>) -> Self {
        let limiter: Result<_, LimitError> =
            Limiter::builder(rate).name(name).store(store.clone()).build();
        Self { limiter: limiter.ok(), dropped: AtomicU64::new(0), dropped_total: AtomicU64::new(0) }
    }

    /// Whether to write a line; if so, how many were dropped before it.
    fn permit(&self) -> Option<u64> {
        if self.limiter.as_ref().is_none_or(|limiter| limiter.check("").allowed()) {
            return Some(self.dropped.swap(0, Relaxed));
        }
        self.dropped.fetch_add(1, Relaxed);
        self.dropped_total.fetch_add(1, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_writes_a_few_lines_and_counts_the_rest() {
        let limiter = LineLimiter::new("refusals", "1/h burst 20", &small_store());
        assert_eq!((0..1000).filter_map(|_| limiter.permit()).collect::<Vec<_>>(), [0; 20]);
        assert_eq!(limiter.dropped.load(Relaxed), 980);
        assert_eq!(limiter.dropped_total.load(Relaxed), 980);
    }
}
