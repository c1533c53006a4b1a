//! Leases: a node takes units ahead of demand and spends them in process, and the fleet never admits more.
//!
//! Every unit that is admitted at `t` was paid for in `[t − ttl, t]`, because the life of a lease counts from
//! before its request left. So what is admitted in `[a, b]` was paid for in `[a − ttl, b]`, and the limit that
//! the store keeps ([`Limit::leased`](crate::Limit::leased)) allows no more there than the plain limit allows in
//! `[a, b]`. Where the bound is one of windows or slots, a lease ends with the one that pays for it instead, and
//! nothing is taken off.

mod backoff;
mod demand;
mod held;
mod message;
mod node;
mod refusal;
mod store;

pub use message::{Message, Step};
pub use node::LeaseHolder;
pub use store::{Grant, GrantRequest, Terms, grant};
