//! Every URL by itself, as the proxy sees it and others tell it: how often it was asked for in the last minute, and how long it took.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Clock, SystemClock};
use tidegate_core::adaptive::{UrlRequest, UrlSummary, Urls};

/// Longer ones are known by how they begin: whoever may choose a path must not choose how much memory it takes.
const URL_BYTES_MAX: usize = 200;

/// What is known, shared by all who ask.
#[derive(Debug, Default)]
pub(crate) struct ByUrl(Mutex<Urls>);

impl ByUrl {
    /// A request leaves; `path` is in its only spelling, and so in ASCII.
    pub(crate) fn begin(&self, path: &str) -> UrlRequest {
        self.lock().begin(known_by(path), SystemClock.now())
    }

    /// It was answered, or never will be.
    pub(crate) fn end(&self, ticket: UrlRequest) {
        self.lock().end(ticket, SystemClock.now());
    }

    /// Somebody else has measured it.
    pub(crate) fn note(&self, path: &str, took: Duration) {
        self.lock().note(known_by(path), took, SystemClock.now());
    }

    /// Those asked for most often; those that share an entry have no name.
    pub(crate) fn busiest(&self, most: usize) -> Vec<(Option<String>, UrlSummary)> {
        let urls = self.lock();
        let busiest = urls.busiest(most, SystemClock.now()).into_iter();
        busiest.map(|(url, summary)| (url.map(str::to_owned), summary)).collect()
    }

    /// Held for one call only.
    fn lock(&self) -> MutexGuard<'_, Urls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn known_by(path: &str) -> &str {
    path.get(..URL_BYTES_MAX).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_apart_and_long_ones_by_how_they_begin() {
        let urls = ByUrl::default();
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
