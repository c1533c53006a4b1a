//! Whose request it is, and for what: told from the connection, and from what trusted proxies write.
//!
//! - [`ClientIp`] finds the client's address, [`Seen`] the whole request, as it reached the first proxy.
//! - [`Path`] is the one normaliser: routes and keys see every path in one spelling.
//! - [`Routes`] say which policy a request is counted by.
//! - [`KeyParts`] makes of a request the key that it is counted by, [`CountedBy`] several where limits name them.
//!
//! Everything here reads hostile input and does no I/O.
#![forbid(unsafe_code)]

mod counted;
mod forwarded;
mod hops;
mod key;
mod path;
mod pattern;
mod peer;
mod recorded;
mod route;

pub use tidegate::tower::ClientIp;

pub use self::counted::{Counted, CountedBy};
pub use self::forwarded::Seen;
pub use self::key::{KeyParts, UnknownPart};
pub use self::path::Path;
pub use self::peer::Peer;
pub use self::recorded::Recorded;
pub use self::route::{BadMatch, Found, Match, Route, Routes};
