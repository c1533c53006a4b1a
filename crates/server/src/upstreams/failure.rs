//! Why a request that was to be passed on has no answer.

use std::error::Error;
use std::io;

use super::upload::Broken;
use crate::metrics::UpstreamTrouble;

#[derive(Debug)]
pub(crate) enum Failure {
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
    pub(crate) fn broken(error: hyper::Error) -> Self {
        match error.source().and_then(|source| source.downcast_ref()) {
            Some(Broken::Paused) => Self::Paused,
            Some(Broken::Sender(_)) => Self::Gone,
            None if error.is_closed() || error.is_incomplete_message() => Self::Closed,
            None => Self::Broken(error),
        }
    }

    /// Whether nothing was said to anybody, so that somebody else can be asked.
    pub(crate) const fn is_unreached(&self) -> bool {
        matches!(self, Self::Unreached(_) | Self::Unheard)
    }

    /// What is counted, unless it was the client's doing.
    pub(crate) const fn trouble(&self) -> Option<UpstreamTrouble> {
        match self {
            Self::Unreached(_) | Self::Unheard => Some(UpstreamTrouble::Unreached),
            Self::Silent => Some(UpstreamTrouble::Timeout),
            Self::Closed | Self::Broken(_) | Self::Coded => Some(UpstreamTrouble::Broken),
            Self::Paused | Self::Gone => None,
        }
    }
}
