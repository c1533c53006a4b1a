//! State in Redis: one limit for a fleet, exact, each check one atomic step of a script on Redis' own clock.
//!
//! [`RedisStore`] is the store. A request becomes one call of a script (`script_request`, `script`, `lua/*`), waits in the
//! queue of the node that keeps its keys (`queue`), and is answered within one deadline. A node is one task
//! with one connection (`node`, `connection`); calls leave in batches (`node/in_flight`), and replies decide what happens next
//! (`node/replies`). In a cluster, `cluster` finds the node of a slot, and re-routes MOVED and ASK replies
//! after a slot-map refresh; `sentinel` follows the primary.
//!
//! [`ServerList`], [`Access`] and [`ServerConnection`] are for a store of another crate that speaks to Redis its own way.

#![forbid(unsafe_code)]

mod access;
mod client;
mod cluster;
mod connection;
mod endpoint;
mod error;
mod examine;
mod key;
mod node;
mod node_breaker;
mod nodes;
mod options;
mod override_table;
mod queue;
#[cfg(doctest)]
mod readme;
mod refresh;
mod script;
mod script_reply;
mod script_request;
mod sentinel;
mod server_connection;
mod slot_map;
mod store;
mod stream;
mod timing;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod waker;

pub use access::Access;
pub use endpoint::{Endpoint, Login, TlsFiles, Topology};
pub use node_breaker::NodeBreakerStatus;
pub use options::{RedisDriver, RedisOptions};
pub use server_connection::ServerConnection;
pub use store::RedisStore;
pub use url::{RedisUrl, ServerList};
