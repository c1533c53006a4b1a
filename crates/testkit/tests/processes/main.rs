//! The harness of the Redis tests does what it says: a fault that is not one would prove nothing.

mod cluster;
mod proxy;
mod sentinel;
mod server;
