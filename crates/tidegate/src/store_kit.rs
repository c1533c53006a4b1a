//! For those who write a store: what a store is asked and answers, and what the stores of tidegate share.
//!
//! A store implements [`Store`], and says by [`Store::extensions`] what else it can do. It rejects requests that are not
//! [valid](StoreRequest::is_valid), as the memory store does; the algorithms and their states are in [`tidegate_core`].
//!
//! - [`StoreRequest`], [`MultiCharge`] and [`ReserveRequest`] are asked, and [`StoreReply`], decisions and a
//!   [`ReserveReply`] answered; a [`StoreError`] says whether the request was carried out.
//! - [`OverrideStore`], [`Coordination`] and [`RemoteStore`] are what only some stores can do.
//! - [`DenyCache`], `Leases` and `Breaker` (features `leases`, `breaker`) are stores around a store.
//! - [`OwnedRequest`] and [`OwnedMultiCharge`] keep a request for later.
//! - [`release_granted`] gives back the permits of a take that was granted after its caller had been told of a failure: the
//!   store alone sees that reply. If only the caller leaves, an [`Engine`](crate::Engine) gives them back by itself.
//! - [`decide_states`] and [`decide_each_state`] decide a request on states that a store has read.
//! - `KeyText` (feature `breaker`) writes identifiers and names so that no two spell the same key.
//! - `NetworkCounters` (feature `breaker`) counts what a store over a network reports of itself.
//! - [`OverridesRecord`] and [`ReadingsRecord`] are the table of overrides and the readings of a scope as values, and as
//!   bytes made of [parts](push_part).
//! - [`OVERRIDES_MAX`] and [`OVERRIDE_BYTES_MAX`] bound a table of overrides.
//! - [`written_life_max`] says how long what was written can matter.
//! - `client_config` (feature `tls`) reads the certificates for connections to a store.
//! - `BreakerTarget` (feature `breaker`) is for a store of several nodes, each with a breaker of its own: it asks for a
//!   `BreakerPass` before each call, and counts the result with it.

use std::time::Duration;

#[doc(inline)]
pub use tidegate_core::{EXACT_MAX, Grant, GrantRequest, LeaseError, Return, Verdict};

#[cfg(feature = "breaker")]
pub use crate::driver::counters::{Counter, NetworkCounters, Times};
pub use crate::permit::release_granted;
#[cfg(feature = "breaker")]
pub use crate::store::breaker::{
    Breaker, BreakerOptions, BreakerPass, BreakerState, BreakerSwitch, BreakerTarget,
    with_probe_request,
};
#[cfg(feature = "tls")]
pub use crate::store::client_tls::client_config;
pub use crate::store::coordination::ReadingsRecord;
pub use crate::store::deny_cache::{DENY_CACHE_TTL, DenyCache};
pub use crate::store::held::{decide_each_state, decide_states};
#[cfg(feature = "breaker")]
pub use crate::store::key_text::KeyText;
#[cfg(feature = "leases")]
pub use crate::store::leases::{LeaseStats, Leases};
pub use crate::store::named_file::open_file;
pub use crate::store::overrides::{OVERRIDE_BYTES_MAX, OVERRIDES_MAX, OverridesRecord};
pub use crate::store::owned::{OwnedMultiCharge, OwnedRequest};
pub use crate::store::parts::{PartReader, push_part};
pub use crate::store::{
    Changed, Charge, Coordination, HashedKeys, KeptState, KeyHasher, KeyedLimit, LimitCharge,
    MultiCharge, OverrideChange, OverrideStore, OverrideTable, Ran, ReadingReport, RemoteStore,
    ReserveReply, ReserveRequest, RoutedStore, Scope, StateUpdate, Store, StoreError,
    StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult, StoredOverride,
    TickReadings,
};

/// The secret of the hash that [`KeyText`] makes, unless another one is set: the same on every node.
///
/// ```
/// use tidegate::store_kit::{HASH_KEY, KeyText};
///
/// let (text, mut key) = (KeyText::new(HASH_KEY), Vec::new());
/// text.name(&mut key, "api");
/// assert_eq!(key, b"api");
/// text.hash(&mut key, b"user-42");
/// assert_eq!(key.len(), "api#".len() + 32);
/// ```
#[cfg(feature = "breaker")]
pub const HASH_KEY: [u8; 16] = *b"tidegate-default";

/// How much longer than it matters a state is kept, for a clock that steps back.
///
/// ```
/// use std::time::Duration;
/// use tidegate::store_kit::{LIFE_MARGIN, written_life_max};
///
/// assert!(written_life_max(Duration::ZERO) > LIFE_MARGIN);
/// ```
pub const LIFE_MARGIN: Duration = Duration::from_secs(10);

/// The longest life of a lease.
const LEASE_LIFE_MAX: Duration = Duration::from_secs(1);

/// How long what was written of a state can matter at most, if the state itself
/// [matters](tidegate_core::Limit::state_life_max) for this long: a lease longer, and a margin. For so long, a server of a
/// quorum that has lost its data does not count.
///
/// ```
/// use std::time::Duration;
/// use tidegate::store_kit::written_life_max;
///
/// assert_eq!(written_life_max(Duration::from_secs(60)), Duration::from_secs(71));
/// ```
pub const fn written_life_max(state_life_max: Duration) -> Duration {
    state_life_max.saturating_add(LEASE_LIFE_MAX).saturating_add(LIFE_MARGIN)
}
