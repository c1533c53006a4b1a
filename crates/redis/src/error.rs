//! Errors of Redis and of connections to it.

use redis::{ErrorKind, RedisError, ServerError};
use tidegate::{StoreError, StoreErrorKind};

/// An error text of Redis, which begins with its code.
pub(crate) fn from_redis(text: &str) -> StoreError {
    let text = without_place(text);
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
        // The script could make no sense of its arguments, or failed on them: the server works.
        "ERR" if text.starts_with(SCRIPT_REFUSES) => StoreErrorKind::BadRequest,
        // Where Lua says at which line it failed, as in `user_script:12: attempt to …`.
        "user_script" | "@user_script" => StoreErrorKind::BadRequest,
        _ if text.contains("max number of clients") => StoreErrorKind::MaxClients,
        _ => StoreErrorKind::Other,
    };
    StoreError::new(kind, text.to_owned())
}

/// How the scripts' own errors about an argument begin.
const SCRIPT_REFUSES: &str = "ERR tidegate: ";

/// What Redis said to a command of a script. Before Redis 7 the place of the call stands before it, and where the script
/// did not catch it, what was called: `ERR Error running script (…): @user_script:9: @user_script: 12: -OOM …`.
fn without_place(text: &str) -> &str {
    let places = ["@user_script:", "user_script:", "=[C]:", "ERR Error running script"];
    if !places.iter().any(|place| text.starts_with(place)) {
        return text;
    }
    let mut after_dash = text.match_indices(": -").map(|(at, dash)| &text[at + dash.len()..]);
    let said = after_dash.find(|it| it.starts_with(|c: char| c.is_ascii_uppercase()));
    said.unwrap_or(text).trim_end()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_of_redis_is_understood() {
        use StoreErrorKind as Kind;
        const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
        for (text, kind, said) in [
            (OOM, Kind::OutOfMemory, OOM),
            (&format!("@user_script: 12: -{OOM}\r\n"), Kind::OutOfMemory, OOM),
            (&format!("=[C]: -1: -{OOM}\r\n"), Kind::OutOfMemory, OOM),
            (
                &format!(
                    "ERR Error running script (call to f_1a2b): @user_script:9: @user_script: 12: -{OOM}"
                ),
                Kind::OutOfMemory,
                OOM,
            ),
            ("@user_script: 3: -READONLY You can't", Kind::ReadOnly, "READONLY You can't"),
            ("@user_script: 3: -MISCONF Redis is", Kind::Misconfigured, "MISCONF Redis is"),
            ("@user_script: 3: -NOREPLICAS Not", Kind::Misconfigured, "NOREPLICAS Not"),
            ("@user_script: 3: -MASTERDOWN Link", Kind::MasterDown, "MASTERDOWN Link"),
            (
                "user_script:12: attempt to index a nil value",
                Kind::BadRequest,
                "user_script:12: attempt to index a nil value",
            ),
            (
                "@user_script:12: attempt to add - to a nil value",
                Kind::BadRequest,
                "@user_script:12: attempt to add - to a nil value",
            ),
            ("ERR tidegate: malformed ask", Kind::BadRequest, "ERR tidegate: malformed ask"),
            ("ERR tidegate: got: -OOM", Kind::BadRequest, "ERR tidegate: got: -OOM"),
            ("ERR unknown command", Kind::Other, "ERR unknown command"),
        ] {
            let error = from_redis(text);
            assert_eq!(error.kind(), kind, "{text}");
            assert!(error.to_string().ends_with(said), "{text}: {error}");
        }
    }
}
