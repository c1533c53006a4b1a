//! State in PostgreSQL: one limit for a fleet, exact and durable, on the database's own clock.
//!
//! [`PostgresStore`] reads the items of a batch in one statement, decides in core, and writes what changed in another,
//! if it is unchanged: `tidegate-cas` is that loop. Here is what is PostgreSQL's own: the URL (`url`), connections
//! (`pool`), the tables and their two statements (`schema`, `backend`), what its errors mean (`error`), and the removal of
//! rows that say nothing any more (`sweep`).
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod backend;
mod driver;
mod error;
mod examine;
mod pool;
mod schema;
mod servers;
mod sweep;
mod url;

pub use backend::PostgresBackend;
pub use driver::{PostgresDriver, PostgresStore};
pub use url::{Durability, PostgresUrl};
