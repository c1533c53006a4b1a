//! Whose request it is, and for what: told from the connection, and from what trusted proxies write.
//!
//! - [`ClientIp`] finds the client's address, [`Seen`] the whole request, as it reached the first proxy.
//! - [`Path`] is the one normaliser: routes and keys see every path in one spelling.
//! - [`KeyParts`] makes of a request the key that it is counted by, [`CountedBy`] several where limits name them.

mod counted;
mod forwarded;
mod hops;
mod key;
mod path;
mod recorded;

pub(crate) use tidegate::tower::ClientIp;

pub(crate) use self::counted::{Counted, CountedBy};
pub(crate) use self::forwarded::Seen;
pub(crate) use self::key::{KeyParts, UnknownPart};
pub(crate) use self::path::Path;
pub(crate) use self::recorded::Recorded;
