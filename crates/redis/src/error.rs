//! Errors of Redis and of connections to it.

use redis::{ErrorKind, RedisError, ServerError};
use tidegate::{StoreError, StoreErrorKind};

/// An error text of Redis, which begins with its code.
pub(crate) fn from_redis(text: &str) -> StoreError {
    let code = text.split([' ', ':']).next().unwrap_or_default();
    let kind = match code {
        "NOSCRIPT" => StoreErrorKind::NoScript,
        "READONLY" => StoreErrorKind::ReadOnly,
        "LOADING" => StoreErrorKind::Loading,
        "BUSY" => StoreErrorKind::Busy,
        "OOM" => StoreErrorKind::OutOfMemory,
        "MISCONF" | "NOREPLICAS" => StoreErrorKind::Misconfigured,
        "MASTERDOWN" => StoreErrorKind::MasterDown,
        "CLUSTERDOWN" | "CROSSSLOT" => StoreErrorKind::ClusterDown,
        "MOVED" | "ASK" | "TRYAGAIN" => StoreErrorKind::Moving,
        "NOAUTH" | "NOPERM" | "WRONGPASS" => StoreErrorKind::Denied,
        "WRONGTYPE" => StoreErrorKind::WrongType,
        _ if text.contains("max number of clients") => StoreErrorKind::MaxClients,
        _ => StoreErrorKind::Other,
    };
    StoreError::new(kind, text.to_owned())
}

/// An error reply. The crate's own kinds say less than the code.
pub(crate) fn from_server(error: &ServerError) -> StoreError {
    from_redis(&format!("{} {}", error.code(), error.details().unwrap_or_default()))
}

/// A connection that failed after something was written.
pub(crate) fn from_connection(error: &RedisError) -> StoreError {
    let kind = match error.kind() {
        ErrorKind::Parse => StoreErrorKind::Protocol,
        _ => StoreErrorKind::Disconnected,
    };
    StoreError::new(kind, error.to_string())
}

/// The runtime of the node's task has ended.
pub(crate) fn runtime_ended() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "the runtime that kept the connection has ended")
}

/// The task that had the request has ended.
pub(crate) fn client_ended() -> StoreError {
    StoreError::new(StoreErrorKind::Disconnected, "the client has ended")
}
