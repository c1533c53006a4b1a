//! Requests and latencies by URL over the last minute, from the proxy and from reports of clients.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Clock, SystemClock};
use tidegate_core::adaptive::{UrlRequest, UrlSummary, Urls};

/// Longer paths are cut: a client chooses the path, and must not choose how much memory it takes.
const URL_BYTES_MAX: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct UrlStats(Mutex<Urls>);

impl UrlStats {
    /// `path` is normalised, so it is ASCII.
    pub(crate) fn begin(&self, path: &str) -> UrlRequest {
        self.lock().begin(truncated(path), SystemClock.now())
    }

    /// The request was answered or given up.
    pub(crate) fn end(&self, request: UrlRequest) {
        self.lock().end(request, SystemClock.now());
    }

    /// Records a latency that a client measured.
    pub(crate) fn note(&self, path: &str, took: Duration) {
        self.lock().note(truncated(path), took, SystemClock.now());
    }

    /// The URLs with the most requests. URLs that share one entry have no name.
    pub(crate) fn busiest(&self, most: usize) -> Vec<(Option<String>, UrlSummary)> {
        let urls = self.lock();
        let busiest = urls.busiest(most, SystemClock.now()).into_iter();
        busiest.map(|(url, summary)| (url.map(str::to_owned), summary)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Urls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn truncated(path: &str) -> &str {
    path.get(..URL_BYTES_MAX).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_urls_are_truncated() {
        let urls = UrlStats::default();
        let long = format!("/{}", "x".repeat(10 * URL_BYTES_MAX));
        for url in ["/a", "/a", "/b", &long, &format!("{long}y"), &long] {
            let ticket = urls.begin(url);
            urls.end(ticket);
        }
        let busiest = urls.busiest(2);
        let counts: Vec<_> = busiest.iter().map(|(_, summary)| summary.count).collect();
        assert_eq!(counts, [3, 2]);
        assert_eq!(busiest[0].0.as_deref().map(str::len), Some(URL_BYTES_MAX));
    }
}
