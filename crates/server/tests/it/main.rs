//! What the compiler does not check: the order of the server's modules.
#![allow(clippy::unwrap_used)]

mod order;
