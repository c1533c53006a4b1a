//! Who sends a request, and what it is counted by: from the connection, and from the headers of trusted proxies.
//!
//! - [`ClientIp`] finds the client's address, [`ClientRequest`] the whole request as the client sent it.
//! - [`Authority`] is the one parser of hosts, [`is_claim`] the one table of headers that a client must not write.
//! - [`Path`] is the one normaliser: routes and keys see every path in one spelling.
//! - [`Routes`] find the policy of a request, [`Resource`] tells its assets from its documents.
//! - [`TokenVerifier`] verifies the JSON Web Token of a request, whose claims can be part of a key.
//! - [`KeyParts`] make the key of a request, [`CountedBy`] one per identifier where limits name them.
//!
//! Everything here reads hostile input and does no I/O.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod authority;
mod claims;
mod client_request;
mod json;
mod key;
mod path;
mod pattern;
mod request_key;
mod resource;
mod route;
mod token;

pub use tidegate::tower::ClientIp;

pub use self::authority::{Authority, BadAuthority};
pub use self::claims::{is_claim, is_respelled};
pub use self::client_request::{
    AmbiguousRequest, ClientRequest, LoggedRequest, Peer, TargetHeader,
};
pub use self::key::KeyParts;
pub use self::path::{BadPath, Case, Path};
pub use self::pattern::PathPattern;
pub use self::request_key::{CountedBy, RequestKey, TenantKey};
pub use self::resource::Resource;
pub use self::route::{
    BadChoice, BadMatch, Choice, Match, MatchedRoute, Route, RouteMatch, Routes,
};
pub use self::token::{BadToken, TokenAlgorithm, TokenRules, TokenVerifier};
