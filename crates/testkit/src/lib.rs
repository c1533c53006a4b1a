//! What tests share.
//!
//! - `fuzz` (feature `fuzz`): input that begins well and goes wrong, and a bound on what may be held because of it.
#![allow(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]
#![warn(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(feature = "fuzz")]
pub mod fuzz;
