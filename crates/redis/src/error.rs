//! Errors that Redis answers, by their code.

use tidegate::{StoreError, StoreErrorKind};

/// What Redis said, which begins with a word for its kind.
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
