//! State in memcached: one limit for a fleet, as long as memcached remembers it.
//!
//! [`MemcachedStore`] spreads items over its servers (`ring`); an item is all limits of a policy on one identifier, so that
//! a check needs one server and one compare-and-swap. Each server is a store of its own with its own breaker: `tidegate-cas`
//! is the loop, and here is what is memcached's own, the protocol (`protocol`) and its connections (`backend`).
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod backend;
mod driver;
mod examine;
mod protocol;
mod ring;
mod store;
mod url;

pub use driver::MemcachedDriver;
pub use store::MemcachedStore;
pub use url::MemcachedUrl;
