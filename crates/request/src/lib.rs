//! Who sends a request, and what it is counted by: from the connection, and from the headers of trusted proxies.
//!
//! - [`ClientIp`] finds the client's address, [`ClientRequest`] the whole request as the client sent it.
//! - [`Path`] is the one normaliser: routes and keys see every path in one spelling.
//! - [`Routes`] find the policy of a request.
//! - [`KeyParts`] make the key of a request, [`CountedBy`] one per identifier where limits name them.
//!
//! Everything here reads hostile input and does no I/O.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod client_request;
mod key;
mod path;
mod pattern;
mod request_key;
mod route;

pub use tidegate::tower::ClientIp;

pub use self::client_request::{AmbiguousRequest, ClientRequest, LoggedRequest, Peer};
pub use self::key::KeyParts;
pub use self::path::{BadPath, Path};
pub use self::request_key::{CountedBy, RequestKey};
pub use self::route::{BadMatch, Match, Route, RouteMatch, Routes};
