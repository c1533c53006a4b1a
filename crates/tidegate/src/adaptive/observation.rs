//! A request that is measured, however it ends.

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{Place, Ticket};

use super::{Target, steady};

/// A request under way to a [`Target`]. It counts as long as this lives: one that is dropped, by a cancel or a panic, has
/// ended too, and after a panic it was not well.
///
/// ```
/// use tidegate::adaptive::{Adaptive, Observation};
///
/// let database = Adaptive::default().target("db");
/// let request: Observation = database.begin().of_url("/report");
/// request.done(false); // it answered 503
/// drop(database.begin()); // given up by whoever asked
/// assert_eq!(database.in_flight(), 0);
/// ```
#[derive(Debug)]
#[must_use = "a request that is not held has ended"]
pub struct Observation {
    target: Target,
    begun: Timestamp,
    url: Option<Ticket>,
    /// Free again when this is dropped.
    _place: Option<Place>,
    ok: Option<bool>,
}

impl Observation {
    pub(super) fn new(target: Target, place: Option<Place>) -> Self {
        let begun = steady(target.clock());
        target.with_observed(|observed| observed.begin(begun));
        Self { target, begun, url: None, _place: place, ok: None }
    }

    /// It is for this URL, which is measured by itself, too: a normalised path, without its query.
    pub fn of_url(mut self, url: &str) -> Self {
        if self.url.is_none() {
            let begun = self.begun;
            self.url = Some(self.target.with_urls(|urls| urls.begin(url, begun)));
        }
        self
    }

    /// It has ended. A timeout or a 5xx was not well.
    pub fn done(mut self, ok: bool) {
        self.ok = Some(ok);
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let (begun, now) = (self.begun, steady(self.target.clock()));
        let ok = self.ok.unwrap_or_else(|| !std::thread::panicking());
        self.target.with_observed(|observed| observed.end(begun, now, ok));
        if let Some(ticket) = self.url {
            self.target.with_urls(|urls| urls.end(ticket, now));
        }
    }
}
