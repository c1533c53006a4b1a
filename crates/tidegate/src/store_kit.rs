//! For those who write a store: what the stores of tidegate share.
//!
//! A store implements [`Store`](crate::Store), and says by [`Store::extensions`](crate::Store::extensions) what else it
//! can do. It rejects requests that are not [valid](crate::StoreRequest::is_valid), as the memory store does; the
//! algorithms and their states are in [`tidegate_core`].
//!
//! - [`OwnedRequest`] and [`OwnedMultiCharge`] keep a request for later.
//! - [`OVERRIDES_MAX`] and [`OVERRIDE_BYTES_MAX`] bound a table of overrides.
//! - `BreakerTarget` (feature `breaker`) is for a store of several nodes, each with a breaker of its own: it asks for a
//!   `BreakerPass` before each call, and counts the result with it.

#[cfg(feature = "breaker")]
pub use crate::store::breaker::{BreakerPass, BreakerSwitch, BreakerTarget, with_probe_request};
pub use crate::store::overrides::{OVERRIDE_BYTES_MAX, OVERRIDES_MAX};
pub use crate::store::owned::{OwnedMultiCharge, OwnedRequest};
