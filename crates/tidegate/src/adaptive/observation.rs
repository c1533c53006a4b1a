//! A request that is measured, however it ends.

use tidegate_core::Timestamp;
use tidegate_core::adaptive::{InFlightGuard, UrlRequest};

use super::{Target, steady};

/// A request under way to a [`Target`]. It counts as long as this lives: one that is dropped, by a cancel or a panic, has
/// ended too, and after a panic it was not well. One that was given up is noted with the time it had: those who leave
/// because it takes too long are often all that tells of an overload. Whether it would have gone well nobody knows, so
/// whoever has a timeout says `done(false)`.
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
    url: Option<UrlRequest>,
    /// Free again when this is dropped.
    _place: Option<InFlightGuard>,
    end: End,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Nobody said.
    Dropped,
    Done {
        ok: bool,
    },
    /// It never left.
    Refused,
}

impl Observation {
    pub(super) fn new(target: Target, place: Option<InFlightGuard>) -> Self {
        let begun = steady(target.clock());
        target.with_observed(|observed| observed.begin(begun));
        Self { target, begun, url: None, _place: place, end: End::Dropped }
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
        self.end = End::Done { ok };
    }

    /// It was refused after all, by a limit that was asked afterwards: nothing is noted of it.
    ///
    /// ```
    /// # use tidegate::adaptive::Adaptive;
    /// # use tidegate::Limiter;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (adaptive, limiter) = (Adaptive::default(), Limiter::new("1/h")?);
    /// let database = adaptive.target("db");
    /// for _ in 0..3 {
    ///     let Some(request) = database.enter(None) else { continue };
    ///     if limiter.check("user-42").allowed() { request.done(true) } else { request.refused() }
    /// }
    /// adaptive.tick().await;
    /// assert_eq!(database.seen().count, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn refused(mut self) {
        self.end = End::Refused;
    }
}

impl Drop for Observation {
    fn drop(&mut self) {
        let (begun, now) = (self.begun, steady(self.target.clock()));
        self.target.with_observed(|observed| match self.end {
            End::Refused => observed.take_back(begun, now),
            End::Done { ok } => observed.end(begun, now, ok),
            End::Dropped => observed.end(begun, now, !std::thread::panicking()),
        });
        let Some(ticket) = self.url else { return };
        self.target.with_urls(|urls| match self.end {
            End::Refused => urls.take_back(ticket),
            End::Done { .. } | End::Dropped => urls.end(ticket, now),
        });
    }
}
