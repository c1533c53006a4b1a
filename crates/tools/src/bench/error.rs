//! Why a request has no decision.

use std::io;

use tidegate_core::text::printable;

/// How a server with TLS answers one who does not speak it.
const TLS_ALERT: [u8; 2] = [21, 3];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RequestError {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
}

/// Errors are counted by kind, because servers send many different messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ErrorKind {
    Connect,
    Lost,
    Timeout,
    Refused,
    BadReply,
}

impl ErrorKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Lost => "connection lost",
            Self::Timeout => "timeout",
            Self::Refused => "answered with an error",
            Self::BadReply => "answer not understood",
        }
    }
}

impl RequestError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(super) fn lost(error: &io::Error) -> Self {
        Self::new(ErrorKind::Lost, format!("the connection was lost: {error}"))
    }

    /// The server has closed the connection, after the start of a reply.
    pub(super) fn closed_after(start: &[u8]) -> Self {
        if start.starts_with(&TLS_ALERT) {
            return Self::bad_reply(start);
        }
        Self::new(ErrorKind::Lost, "the server has hung up")
    }

    pub(super) fn bad_reply(reply: &[u8]) -> Self {
        if reply.starts_with(&TLS_ALERT) {
            let why = "it speaks TLS: the URL has to begin with https:// or rediss://";
            return Self::new(ErrorKind::BadReply, why);
        }
        let start = reply.get(..80).unwrap_or(reply);
        let shown = printable(&String::from_utf8_lossy(start));
        Self::new(
            ErrorKind::BadReply,
            format!("expected an answer of this protocol, not `{shown}`"),
        )
    }
}
