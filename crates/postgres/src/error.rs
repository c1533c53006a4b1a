//! What an error of PostgreSQL means for a decision.

use tidegate::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The error of a connection that could not be made.
pub(crate) fn not_connected(error: &Error) -> StoreError {
    let kind = match kind_of(error) {
        Some(kind) => kind,
        None => StoreErrorKind::Unreachable,
    };
    StoreError::new(kind, text(error))
}

/// The error of a statement.
pub(crate) fn failed(error: &Error) -> StoreError {
    StoreError::new(kind_of(error).unwrap_or(StoreErrorKind::Disconnected), text(error))
}

/// Whether other transactions came between: nothing was written, and another attempt may work.
pub(crate) fn is_conflict(error: &Error) -> bool {
    let conflicts = [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE];
    error.code().is_some_and(|code| conflicts.contains(&code))
}

/// Whether our tables or functions are not there.
pub(crate) fn is_schema_missing(error: &Error) -> bool {
    let missing = [
        &SqlState::UNDEFINED_TABLE,
        &SqlState::UNDEFINED_FUNCTION,
        &SqlState::INVALID_SCHEMA_NAME,
        &SqlState::UNDEFINED_COLUMN,
    ];
    error.code().is_some_and(|code| missing.contains(&code))
}

/// `None` where the server said nothing. A transaction that failed was rolled back, so a statement with an answer has
/// not run; except when the server was being stopped.
fn kind_of(error: &Error) -> Option<StoreErrorKind> {
    let code = error.code()?;
    Some(match *code {
        SqlState::LOCK_NOT_AVAILABLE | SqlState::QUERY_CANCELED => StoreErrorKind::Busy,
        SqlState::READ_ONLY_SQL_TRANSACTION => StoreErrorKind::ReadOnly,
        SqlState::DISK_FULL | SqlState::OUT_OF_MEMORY => StoreErrorKind::OutOfMemory,
        SqlState::TOO_MANY_CONNECTIONS => StoreErrorKind::MaxClients,
        SqlState::CANNOT_CONNECT_NOW => StoreErrorKind::Loading,
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => StoreErrorKind::Disconnected,
        SqlState::INSUFFICIENT_PRIVILEGE => StoreErrorKind::Denied,
        // No such database.
        SqlState::INVALID_CATALOG_NAME => StoreErrorKind::Misconfigured,
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreErrorKind::Denied
        }
        _ if is_schema_missing(error) => StoreErrorKind::Misconfigured,
        _ => StoreErrorKind::Other,
    })
}

/// The error with its cause: the server's own words, or the system's.
fn text(error: &Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => format!("{} ({})", db.message(), db.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// What to do about a failure of this kind.
pub(crate) const fn remedy(kind: StoreErrorKind) -> Option<&'static str> {
    Some(match kind {
        StoreErrorKind::Denied => {
            "correct user and password of the URL; the role has to be the owner of the schema tidegate, as \
             deploy/postgres/setup.sql makes it, or to have CREATE on the database: GRANT CREATE ON DATABASE name TO role"
        }
        StoreErrorKind::Misconfigured => {
            "let the role make the schema tidegate, or run deploy/postgres/setup.sql as a superuser"
        }
        StoreErrorKind::ReadOnly => {
            "a standby cannot count: name the primary in the URL, or all servers, of which the primary is found"
        }
        StoreErrorKind::OutOfMemory => {
            "free space on the server's disk: see docs/postgres.md#a-full-disk"
        }
        StoreErrorKind::MaxClients => {
            "raise max_connections, lower connections= in the URL, or put a pooler in between"
        }
        StoreErrorKind::Busy => "another transaction holds our rows: pg_stat_activity shows which",
        StoreErrorKind::Loading => "the server starts: wait, and look at its log if it takes long",
        StoreErrorKind::Unreachable
        | StoreErrorKind::Timeout
        | StoreErrorKind::NotSent
        | StoreErrorKind::Disconnected => {
            "start the server, or correct host and port of the URL: `pg_isready -h HOST -p PORT` asks it"
        }
        _ => return None,
    })
}
