//! Why a request that was to be passed on has no answer.

use std::error::Error;
use std::io;

use axum::http::StatusCode;

use super::upload::Broken;
use crate::doors::http::Problem;
use crate::metrics::UpstreamTrouble;

#[derive(Debug)]
pub(super) enum Failure {
    /// Nobody was there to connect to.
    Unreached(io::Error),
    /// To connect took too long.
    Unheard,
    /// No answer came in time.
    Silent,
    /// The connection ended without an answer.
    Closed,
    /// What came was no answer, or the connection broke.
    Broken(hyper::Error),
    /// The answer is in a transfer coding that was not asked for.
    Coded,
    /// The client did not go on with its body.
    Paused,
    /// The client broke off.
    Gone,
}

impl Failure {
    pub(super) fn broken(error: hyper::Error) -> Self {
        match error.source().and_then(|source| source.downcast_ref()) {
            Some(Broken::Paused) => Self::Paused,
            Some(Broken::Sender(_)) => Self::Gone,
            None if error.is_closed() || error.is_incomplete_message() => Self::Closed,
            None => Self::Broken(error),
        }
    }

    /// Whether nothing was said to anybody, so that somebody else can be asked.
    pub(super) const fn is_unreached(&self) -> bool {
        matches!(self, Self::Unreached(_) | Self::Unheard)
    }

    /// What is counted, unless it was the client's doing.
    pub(super) const fn trouble(&self) -> Option<UpstreamTrouble> {
        match self {
            Self::Unreached(_) | Self::Unheard => Some(UpstreamTrouble::Unreached),
            Self::Silent => Some(UpstreamTrouble::Timeout),
            Self::Closed | Self::Broken(_) | Self::Coded => Some(UpstreamTrouble::Broken),
            Self::Paused | Self::Gone => None,
        }
    }

    /// What the client is told: what happened, and not where.
    pub(super) fn problem(&self) -> Problem {
        let (status, detail) = match self {
            Self::Unreached(error) => (
                StatusCode::BAD_GATEWAY,
                format!("what is behind this proxy cannot be connected to: {}", error.kind()),
            ),
            Self::Unheard => (
                StatusCode::GATEWAY_TIMEOUT,
                "what is behind this proxy did not take the connection in time".to_owned(),
            ),
            Self::Silent => (
                StatusCode::GATEWAY_TIMEOUT,
                "what is behind this proxy did not answer in time".to_owned(),
            ),
            Self::Closed => (
                StatusCode::BAD_GATEWAY,
                "what is behind this proxy closed the connection without an answer".to_owned(),
            ),
            Self::Broken(error) if error.is_parse() => (
                StatusCode::BAD_GATEWAY,
                "what is behind this proxy did not answer in HTTP".to_owned(),
            ),
            Self::Broken(_) => (
                StatusCode::BAD_GATEWAY,
                "the connection to what is behind this proxy broke".to_owned(),
            ),
            Self::Coded => (
                StatusCode::BAD_GATEWAY,
                "what is behind this proxy answered in a transfer coding other than `chunked`"
                    .to_owned(),
            ),
            Self::Paused => (
                StatusCode::REQUEST_TIMEOUT,
                "the body of the request did not come in time".to_owned(),
            ),
            Self::Gone => {
                return Problem::bad_input("the body ended early or was not well framed");
            }
        };
        Problem::gateway(status, &detail)
    }
}
