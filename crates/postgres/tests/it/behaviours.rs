//! The promises of every store, kept by PostgreSQL.

use std::sync::atomic::{AtomicU32, Ordering};

use tidegate::driver::StoreOptions;
use tidegate_testkit::store_behaviours;

use crate::support::{open, options, shared_server};

store_behaviours!({
    // Each test has keys of its own.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let prefix = format!("behaviours-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let options = StoreOptions { replays: true, ..options(&prefix) };
    let store = open(&shared_server().url(), &options);
    ((), move |_| store.clone())
});
