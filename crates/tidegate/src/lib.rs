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
//! - [`Limiter`] is one limit over many keys, and all that most programs need; [`Shaper`] delays instead of
//!   refusing.
//! - [`Engine`] holds named policies, of one limit or several in one atomic step.
//! - [`tower::RateLimitLayer`](https://docs.rs/tidegate) puts a limiter in front of a service of axum, tonic or
//!   anything else that speaks tower (feature `tower`).
//! - [`Effective`] is how much of a limit is in force, and `adaptive` (feature `adaptive`) sets it by the health of what
//!   the limit protects.
//! - [`MemoryStore`] keeps the state of all keys in this process; `RedisStore` of the crate `tidegate-redis` keeps
//!   it in a Redis that a fleet shares, and [`store_kit`] is for those who write another.
//! - [`Clock`] is where time comes from, and can be your own.
//!
//! A refusal is a value, [`Decision`]; an `Err` is only ever trouble. The algorithms themselves are in
//! [`tidegate_core`]; [`Limit`] describes how a limit is written.
#![warn(missing_docs)]

mod builder;
mod cidr;
mod clock;
mod effective;
mod engine;
mod limiter;
mod overrides;
mod permit;
mod policy;
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
pub mod deadline;
#[cfg(feature = "breaker")]
pub mod driver;
pub mod store_kit;
#[cfg(feature = "tower")]
pub mod tower;

pub use builder::Builder;
pub use cidr::{Cidr, CidrError};
pub use clock::{Clock, ManualClock, SystemClock};
pub use effective::Effective;
pub use engine::{
    Answer, BindingLimit, BuildError, Check, CheckError, Engine, EngineBuilder, GivenAnswer, Key,
    OverrideError, PolicyHandle, PolicyView, Question, Queued, RunTimeOverrides, Together,
};
pub use limiter::Limiter;
pub use permit::{Acquired, BadPermitId, Permit, PermitId, Released};
pub use policy::{Member, OnStoreError, Override, Policy, PolicyKind, PolicyProblem};
pub use reply::{Later, Reply, UnderWay};
pub use shaper::Shaper;
#[cfg(feature = "breaker")]
pub use store::breaker::{Breaker, BreakerOptions, BreakerState};
pub use store::deny_cache::DenyCache;
#[cfg(feature = "leases")]
pub use store::leases::{LeaseStats, Leases};
pub use store::memory::{MemoryStats, MemoryStore, SnapshotError};
pub use store::{
    Changed, Charge, Coordination, KeptState, KeyedLimit, LimitCharge, MultiCharge, Op,
    OverrideChange, OverrideStore, OverrideTable, Ran, ReadingReport, RemoteStore, Replicas,
    ReserveReply, ReserveRequest, RoutedStore, Scope, Source, StateUpdate, Store, StoreError,
    StoreErrorKind, StoreExtensions, StoreReply, StoreRequest, StoreResult, StoredOverride,
    TickReadings, Unconfirmed,
};
pub use tidegate_core::{
    Concurrency, Decision, EXACT_MAX, Every, FixedWindow, Gcra, Grant, GrantRequest, LeakyBucket,
    LeaseError, Limit, LimitError, Mode, Quota, Reservation, Return, SlidingLog, SlidingWindow,
    Timestamp, Verdict, Zone, parse_duration,
};
#[cfg(feature = "tokio")]
pub use wait::NeverReady;
#[cfg(feature = "time-zones")]
pub use zone::{UnknownZone, zone};
