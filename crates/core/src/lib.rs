//! The algorithms of [tidegate](https://docs.rs/tidegate), and nothing else.
//!
//! Everything here is a pure function of a limit, a state, an instant and a cost. The crate reads no clock,
//! does no I/O and depends on the standard library alone. A decision uses no floating point, and allocates
//! nothing but what a state needs to grow. Every store makes the same decision, bit for bit.
//!
//! - [`Limit`] is one of the checked algorithms: [`Gcra`] (also the token bucket), [`FixedWindow`],
//!   [`SlidingWindow`], [`SlidingLog`], [`Quota`], [`Concurrency`]. [`LeakyBucket`] shapes instead.
//! - [`Rate`] is a limit as code writes it: `Limit::per_minute(100).burst(20)`.
//! - [`LimitSpec`] is a limit as a person writes it, in one line or as fields; it becomes a [`Limit`] or an error that
//!   names the field.
//! - [`State`] is what a store keeps per key.
//! - [`Limit::decide`] answers with a [`Decision`] and the [`Change`] that an admitted check writes;
//!   [`decide_many`] does the same over several limits at once.
//! - [`Limit::effective`] is the limit in force while what it protects can bear less than all of it.
//! - A *lease* lets a node take units ahead and spend them in process, and never admits more: [`Terms`] say
//!   for how long, [`Limit::leased`] is what the store then keeps, [`grant`] and [`Limit::give_back`] are what
//!   it is asked.
//! - [`Histogram`], [`BucketCounts`], [`Wildcard`] and [`text`] are small tools that the other crates share.
//! - [`share`] divides one limit fairly among those who ask for it.
//! - [`adaptive`] makes limits follow the health of what they protect. There numbers are floats; what comes out
//!   is the whole number that a decision takes.
//!
//! ```
//! use tidegate_core::{Limit, State, Timestamp};
//!
//! let limit: Limit = "100/min burst 20".parse()?;
//! let mut state = State::Empty;
//! let now = Timestamp::from_micros(1_700_000_000_000_000);
//! let decision = limit.take(&mut state, now, 1);
//! assert!(decision.allowed());
//! assert_eq!(decision.remaining(), 19);
//! # Ok::<(), tidegate_core::LimitError>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod adaptive;
mod algorithm;
mod calendar;
mod combine;
mod decision;
mod error;
mod grammar;
mod histogram;
mod lease;
mod limit;
mod rate;
pub mod share;
mod sightings;
mod spec;
mod state;
pub mod text;
mod time;
mod wildcard;

pub use algorithm::{
    Concurrency, FixedWindow, Gcra, LeakyBucket, Quota, Return, ScaledArrival, SlidingLog,
    SlidingWindow,
};
pub use calendar::{Every, Transition, Zone};
pub use combine::{Mode, Verdict, Weighted, decide_each, decide_many};
pub use decision::{Decision, Reservation};
pub use error::{LeaseError, LimitError};
pub use histogram::{AtomicBuckets, BucketCounts, Cell, Histogram, bucket_index};
pub use lease::{Grant, GrantRequest, LeaseHolder, Message, Step, Terms, grant};
pub use limit::{Limit, LimitOrShaper};
pub use rate::Rate;
pub use spec::{
    Algorithm, Amount, Field, FieldError, LimitSpec, Period, Written, Zones, parse_duration,
    read_duration, read_rate,
};
pub use state::{Arrival, Change, Log, Permit, Permits, Run, Slots, State, Window};
pub use time::{EXACT_MAX, Timestamp};
pub use wildcard::Wildcard;
