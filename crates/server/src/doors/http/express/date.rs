//! The date of an answer, written anew once a second.

use std::cell::RefCell;
use std::time::{Duration, UNIX_EPOCH};

use tidegate::Timestamp;

thread_local! {
    static WRITTEN: RefCell<(u64, String)> = RefCell::default();
}

/// Shows the date of an instant.
pub(super) fn with(now: Timestamp, show: impl FnOnce(&str)) {
    let second = now.as_micros() / 1_000_000;
    WRITTEN.with_borrow_mut(|(written, date)| {
        if *written != second {
            *written = second;
            *date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
        }
        show(date);
    });
}
