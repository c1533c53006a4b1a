//! One store over whatever keeps bytes under keys, with versions: read, decide in core, write if unchanged.
//!
//! - [`Backend`] is what a database has to offer: two methods.
//! - [`CasStore`] is the store over it. Checks wait in the lane of their item (`lanes`); a lane reads all items of its
//!   batch in one call, decides the checks one after another (`flight`), and writes what changed in another call. A
//!   check whose items were changed by another node meanwhile is decided again.
//! - An item holds the states of all limits of one policy on one identifier (`item`).
//! - Overrides, readings and the count of nodes are items too (`records`).
//!
//! Nothing here knows a particular database.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod backend;
mod flight;
mod item;
mod lanes;
mod nodes;
mod options;
mod records;
mod step;
mod store;

pub use backend::{Backend, Commit, ItemKey, Reading, Snapshot, Stored, Update, Wanted, Written};
pub use options::CasOptions;
pub use store::CasStore;
