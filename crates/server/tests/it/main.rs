//! What the compiler does not check: the order of the server's modules, and what no request may cost.
#![allow(clippy::unwrap_used)]

mod order;
mod suggestions;
