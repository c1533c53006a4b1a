//! Why a forwarded request has no response.

use std::error::Error;
use std::io;

use super::upload::Broken;
use crate::metrics::UpstreamError;

#[derive(Debug)]
pub(crate) enum Failure {
    ConnectFailed(io::Error),
    ConnectTimeout,
    ResponseTimeout,
    /// The upstream closed the connection without a response.
    Closed,
    /// An invalid response, or a broken connection.
    Broken(hyper::Error),
    /// The response has a transfer coding that was not asked for.
    UnknownCoding,
    /// The request's place at the upstreams was lost before it was sent.
    PlaceLost,
    /// The client stopped sending its body.
    ClientPaused,
    /// The client disconnected.
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

    /// Whether no connection was made, so that another upstream may be tried.
    pub(crate) const fn is_unreached(&self) -> bool {
        matches!(self, Self::ConnectFailed(_) | Self::ConnectTimeout)
    }

    /// How it is counted; `None` if the upstream did not cause it.
    pub(crate) const fn upstream_error(&self) -> Option<UpstreamError> {
        match self {
            Self::ConnectFailed(_) | Self::ConnectTimeout => Some(UpstreamError::Unreached),
            Self::ResponseTimeout => Some(UpstreamError::Timeout),
            Self::Closed | Self::Broken(_) | Self::UnknownCoding => Some(UpstreamError::Broken),
            Self::PlaceLost | Self::ClientPaused | Self::ClientGone => None,
        }
    }
}
