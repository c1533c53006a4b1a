//! State in DynamoDB: one limit for a fleet on AWS, without a server to run.
//!
//! [`DynamoDbStore`] reads the items of a batch, decides in core, and writes what changed, each item if it is unchanged:
//! `tidegate-cas` is that loop. Here is what is DynamoDB's own: the URL (`url`), the client and its credentials
//! (`connection`), reads (`backend`), conditional writes and transactions (`write`), how an item looks (`item`), what errors
//! mean (`error`), the table (`table`) and what can be wrong with it (`examine`).
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod backend;
mod connection;
mod driver;
mod error;
mod examine;
mod item;
mod table;
mod url;
mod write;

pub use backend::DynamoDbBackend;
pub use driver::{DynamoDbDriver, DynamoDbStore};
pub use url::DynamoDbUrl;
