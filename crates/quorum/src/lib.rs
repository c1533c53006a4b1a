//! State in several independent Redis servers: what a majority has confirmed, no single one of them can make forget.
//!
//! Each item is a register in the manner of `CASPaxos`. [`QuorumBackend`] is what `tidegate-cas` asks for: to read is to have
//! a fresh *ballot* promised by a majority, to write is to have a value accepted at that ballot by a majority.
//!
//! - `ballot`, `value` and `rounds` are the protocol's rules as pure functions: order, descent, majorities, what a write
//!   with an unknown outcome has become. `lua/*` has what a server does with one message.
//! - `backend` decides which messages to send, `servers` sends them to all, and `standing` says which servers count: one that restarted empty does not for a while.
//! - `node` is one server with its connection; `script` calls the scripts, and reads their replies.
//! - `model` (tests) explores every order, loss and crash of small cases with the same rules.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod absence;
mod backend;
mod ballot;
mod driver;
mod examine;
#[cfg(test)]
mod model;
mod node;
mod replies;
mod rounds;
mod script;
mod servers;
mod standing;
mod url;
mod value;

pub use backend::{QuorumBackend, QuorumVersion};
pub use driver::QuorumDriver;
pub use url::QuorumUrl;
