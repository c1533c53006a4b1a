//! Why a request that was to be passed on has no answer.

use std::error::Error;
use std::io;

use super::upload::Broken;
use crate::metrics::UpstreamError;

#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody was there to connect to.
    ConnectFailed(io::Error),
    /// To connect took too long.
    ConnectTimeout,
    /// No answer came in time.
    ResponseTimeout,
    /// The connection ended without an answer.
    Closed,
    /// What came was no answer, or the connection broke.
    Broken(hyper::Error),
    /// The answer is in a transfer coding that was not asked for.
    UnknownCoding,
    /// The client did not go on with its body.
    ClientPaused,
    /// The client broke off.
    ClientGone,
}

impl Failure {
    pub(crate) fn broken(error: hyper::Error) -> Self {
        match error.source().and_then(|source| source.downcast_ref()) {
            Some(Broken::Paused) => Self::ClientPaused,
            Some(Broken::Sender(_)) => Self::ClientGone,
            None if error.is_closed() || error.is_incomplete_message() => Self::Closed,
            None => Self::Broken(error),
        }
    }

    /// Whether nothing was said to anybody, so that somebody else can be asked.
    pub(crate) const fn is_unreached(&self) -> bool {
        matches!(self, Self::ConnectFailed(_) | Self::ConnectTimeout)
    }

    /// What is counted, unless it was the client's doing.
    pub(crate) const fn trouble(&self) -> Option<UpstreamError> {
        match self {
            Self::ConnectFailed(_) | Self::ConnectTimeout => Some(UpstreamError::Unreached),
            Self::ResponseTimeout => Some(UpstreamError::Timeout),
            Self::Closed | Self::Broken(_) | Self::UnknownCoding => Some(UpstreamError::Broken),
            Self::ClientPaused | Self::ClientGone => None,
        }
    }
}
