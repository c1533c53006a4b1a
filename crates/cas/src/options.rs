//! How the store is opened.

use std::time::Duration;

use tidegate::KeyHasher;
use tidegate::driver::StoreOptions;

/// Options of a [`CasStore`](crate::CasStore).
///
/// ```
/// let options = tidegate_cas::CasOptions::default();
/// assert_eq!((options.lanes, options.key_prefix.as_str()), (4, "tg"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CasOptions {
    /// What every key begins with.
    pub key_prefix: String,
    /// Hashes identifiers and names that are long or no plain text; the same on every node.
    pub hasher: KeyHasher,
    /// How long a decision may take.
    pub deadline: Duration,
    /// Whether the caller's time replaces the database's and this node's: for replays and tests.
    pub replays: bool,
    /// Whether this process counts as one of the nodes that share the store.
    pub announces: bool,
    /// How many batches are under way at most; 4. Checks of one item are always in one batch at a time.
    pub lanes: usize,
}

impl Default for CasOptions {
    fn default() -> Self {
        Self::from(&StoreOptions::default())
    }
}

impl From<&StoreOptions> for CasOptions {
    fn from(options: &StoreOptions) -> Self {
        let StoreOptions { key_prefix, hasher, deadline, replays, announces, .. } = options;
        Self {
            key_prefix: key_prefix.clone(),
            hasher: hasher.clone(),
            deadline: *deadline,
            replays: *replays,
            announces: *announces && !replays,
            lanes: 4,
        }
    }
}
