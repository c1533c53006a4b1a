//! A rate limiter to embed: exact, in tens of nanoseconds in one process, or for a whole fleet over Redis.
//!
//! ```
//! use tidegate::Limiter;
//!
//! let limiter = Limiter::new("100/min burst 20")?;
//! if limiter.check("user-42").allowed() {
//!     println!("go ahead");
//! }
//! # Ok::<(), tidegate::LimitError>(())
//! ```
//!
//! Six types are all that most programs need:
//!
//! | type | is | |
//! |---|---|---|
//! | [`Limiter`] | one limit over many keys, in this process | `limiter.check("user-42")` |
//! | [`Limit`] | the limit, as text or as code | `Limit::per_minute(100).burst(20)` |
//! | [`Decision`] | the answer; a refusal is a value | `decision.retry_after()` |
//! | [`Shaper`] | a limiter that delays instead of refusing | `shaper.schedule("user-42").await` |
//! | [`Engine`] | named policies over any store | `engine.check("api", "user-42").await?` |
//! | [`Policy`] | one limit or several, and what to do while the store fails | `Policy::all().limit("day", "1000/day")` |
//!
//! In front of a service of axum, tonic or anything else that speaks tower stands `tower::RateLimitLayer` (feature
//! `tower`). It asks a limiter, or a policy of an engine: `RateLimitLayer::new(engine.policy("api")?)`.
//!
//! What these take and return is in modules; every name of the first five can be imported from the root, too:
//!
//! - [`limits`]: the algorithms, errors, and what can be a [key](limits::AsKey).
//! - [`engine`]: answers, errors, permits, and [handles](engine::PolicyHandle) of policies.
//! - [`policy`]: options of a policy, overrides, and [how much of a limit is in force](policy::Effective).
//! - [`memory`]: the store in this process. `RedisStore` of the crate `tidegate-redis` keeps state for a fleet.
//! - [`clock`]: where time comes from. It can be your own.
//! - `adaptive` (feature `adaptive`) sets limits by the health of what they protect.
//! - [`store_kit`], `driver` and [`deadline`] are for those who write a store.
//!
//! An `Err` is only ever trouble. The algorithms themselves are in [`tidegate_core`].
#![warn(missing_docs)]

mod builder;
mod cidr;
mod effective;
mod key;
mod limiter;
mod overrides;
mod permit;
#[cfg(all(doctest, feature = "adaptive", feature = "axum", feature = "time-zones"))]
mod readme;
mod reply;
mod shaper;
mod store;
mod sync;
#[cfg(feature = "tokio")]
mod wait;
#[cfg(feature = "time-zones")]
mod zone;

#[cfg(feature = "adaptive")]
pub mod adaptive;
pub mod clock;
pub mod deadline;
#[cfg(feature = "breaker")]
pub mod driver;
pub mod engine;
pub mod limits;
pub mod memory;
pub mod policy;
pub mod store_kit;
#[cfg(feature = "tower")]
pub mod tower;

// The front page.
#[doc(inline)]
pub use engine::Engine;
pub use limiter::Limiter;
#[doc(inline)]
pub use policy::Policy;
pub use shaper::Shaper;
#[doc(inline)]
pub use tidegate_core::{Decision, Limit};

// Documented in their modules, so that the front page stays short.
#[doc(hidden)]
pub use {clock::*, engine::*, limits::*, memory::*, policy::*};

// The same for what stores import.
#[cfg(feature = "breaker")]
#[doc(hidden)]
pub use store_kit::{Breaker, BreakerOptions, BreakerState};
#[doc(hidden)]
pub use store_kit::{
    Changed, Charge, Coordination, DenyCache, EXACT_MAX, Grant, GrantRequest, HashedKeys,
    KeptState, KeyHasher, KeyedLimit, LeaseError, LimitCharge, MultiCharge, OverrideChange,
    OverrideStore, OverrideTable, Ran, ReadingReport, RemoteStore, ReserveReply, ReserveRequest,
    Return, RoutedStore, Scope, StateUpdate, Store, StoreError, StoreErrorKind, StoreExtensions,
    StoreReply, StoreRequest, StoreResult, StoredOverride, TickReadings, Verdict,
};
#[cfg(feature = "leases")]
#[doc(hidden)]
pub use store_kit::{LeaseStats, Leases};
