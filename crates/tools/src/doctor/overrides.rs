//! Overrides that were set before `store.hash_keys`.

use tidegate::driver::Finding;
use tidegate::{Clock, OverrideStore, Store, SystemClock};

/// A store that keeps no overrides, or does not answer, has none to find: what ails it is a finding of its own.
pub(super) async fn readable(store: &dyn Store) -> Option<Finding> {
    let table = store.extensions().overrides(0, SystemClock.now()).await.ok()??;
    let count = table.entries.iter().filter(|it| it.has_readable_key()).count();
    (count > 0).then(|| {
        Finding::warning("overrides", format!("{count} were set without store.hash_keys"))
            .risk("they match nobody, and who reads the store can read their keys")
            .remedy(
                "GET /v1/overrides lists them: DELETE each, and PUT those that should hold again",
            )
    })
}
