//! The promises of every store, kept by the store in memory and by those around it.

use std::sync::Arc;

use tidegate::{DenyCache, HashedKeys, KeyHasher, MemoryStore};
use tidegate_testkit::store_behaviours;

mod memory {
    use super::*;

    store_behaviours!(((), |_| Arc::new(MemoryStore::default())));
}

mod hashed_keys {
    use super::*;

    store_behaviours!(((), |_| {
        Arc::new(HashedKeys::new(Arc::new(MemoryStore::default()), KeyHasher::new([7; 16])))
    }));
}

mod deny_cache {
    use super::*;

    store_behaviours!(((), |clock| {
        Arc::new(DenyCache::with_clock(MemoryStore::default(), clock))
    }));
}

#[cfg(feature = "breaker")]
mod breaker {
    use super::*;
    use tidegate::{Breaker, BreakerOptions};

    store_behaviours!(((), |_| Arc::new(Breaker::around(
        MemoryStore::default(),
        BreakerOptions::default()
    ))));
}
