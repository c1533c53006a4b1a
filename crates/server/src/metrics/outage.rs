//! The store's outage, while there is one: since when, and the last real error. Checks only learn that the breaker is
//! open.

use std::sync::Arc;

use tidegate::{StoreError, StoreErrorKind, Timestamp};
use tidegate_core::text::printable;

use super::sink::Sink;
use super::{Metrics, catalog};

/// Longer texts are cut: a server may answer anything.
const ERROR_CHARS_MAX: usize = 300;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StoreOutage {
    pub(crate) since: Timestamp,
    pub(crate) error: StoreError,
}

impl StoreOutage {
    pub(crate) const fn kind(&self) -> StoreErrorKind {
        self.error.kind()
    }

    /// The error as one short line. Errors of stores have no secrets.
    pub(crate) fn text(&self) -> String {
        one_line(&self.error)
    }
}

fn one_line(error: &StoreError) -> String {
    printable(&error.to_string()).chars().take(ERROR_CHARS_MAX).collect()
}

impl Metrics {
    /// Begins, updates or ends the outage.
    pub(crate) fn set_outage(&self, outage: Option<StoreOutage>) {
        self.outage.store(outage.map(Arc::new));
    }

    pub(crate) fn outage(&self) -> Option<Arc<StoreOutage>> {
        self.outage.load_full()
    }

    /// Why the store does not serve, as one line: known from the first failure on.
    pub(crate) fn store_cause(&self) -> Option<String> {
        let now = self.store().and_then(|store| store.cause());
        now.map(|error| one_line(&error)).or_else(|| self.outage().map(|it| it.text()))
    }

    /// Every kind, also with 0: an alert must see it end.
    pub(super) fn store_outage(&self, to: &mut impl Sink) {
        let current = self.outage().map(|outage| outage.kind());
        let kinds = StoreErrorKind::ALL.iter();
        let samples = kinds.map(|kind| ([kind.as_str()], u64::from(current == Some(*kind))));
        to.samples(&catalog::STORE_OUTAGE, samples);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_short_line() {
        let error = StoreError::new(StoreErrorKind::Other, format!("a\nb{}", "x".repeat(1000)));
        let text = StoreOutage { since: Timestamp::EPOCH, error }.text();
        assert!(text.starts_with("other: a\\nbx"), "{text}");
        assert_eq!(text.chars().count(), ERROR_CHARS_MAX);
    }
}
