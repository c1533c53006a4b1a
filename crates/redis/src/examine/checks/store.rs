//! Whether a server can be reached.

use super::Finding;
use crate::examine::connection::ConnectError;
use tidegate_core::text::printable;

/// A server that did not let us in. `cli` reaches it as we tried to.
pub(in super::super) fn not_reached(refusal: &ConnectError, cli: &str) -> Finding {
    let (seen, remedy) = match refusal {
        ConnectError::Url(why) => {
            (format!("the URL makes no sense: {why}"), "redis://HOST:6379".to_owned())
        }
        ConnectError::Refused => (
            "nothing listens there".to_owned(),
            format!("{cli} PING    # is Redis running, at this address?"),
        ),
        ConnectError::TimedOut => (
            "no answer within 2 s".to_owned(),
            format!("{cli} PING    # a firewall, a hung server, or TLS on one side only?"),
        ),
        ConnectError::NeedsPassword => (
            "it wants a password, and the URL has none".to_owned(),
            "--store redis://USER:PASSWORD@HOST:6379".to_owned(),
        ),
        ConnectError::Denied => (
            "the user or password was not accepted".to_owned(),
            format!(
                "{cli} PING    # special characters in a URL's password are written %40 for @, %2F for /"
            ),
        ),
        ConnectError::Other(why) => (printable(why), format!("{cli} PING")),
    };
    Finding::fault("reach", seen)
        .risk("no check can be answered by the store, and on_store_error decides")
        .remedy(remedy)
}
