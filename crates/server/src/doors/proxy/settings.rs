//! What a configuration says to the proxy, checked.

use std::path::PathBuf;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::uri::PathAndQuery;

use super::target::Target;

/// All of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    /// At least one.
    pub(crate) upstreams: Vec<Target>,
    pub(crate) balance: Balance,
    /// The authorities that upstreams are known by, instead of the system's.
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) times: Times,
    /// How many connections are kept to each upstream while nobody uses them.
    pub(crate) idle_connections_max: usize,
    /// How many requests may be under way at once; more are turned away.
    pub(crate) requests_max: usize,
    /// How many requests may wait for their turn in a leaky bucket.
    pub(crate) waiting_max: usize,
    pub(crate) host: HostHeader,
    /// What those are told who are turned away because there is too much to do.
    pub(crate) shed_status: StatusCode,
    pub(crate) health: Option<HealthCheck>,
    /// Whether `Forwarded` is written as well.
    pub(crate) writes_forwarded: bool,
}

/// How long to wait for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    /// To be connected, TLS included.
    pub(crate) connect: Duration,
    /// For the head of an answer, from when the request was sent.
    pub(crate) response: Duration,
    /// For more of a body.
    pub(crate) idle: Duration,
    /// How long an unused connection is kept.
    pub(crate) keep: Duration,
}

/// Who of several upstreams gets a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Balance {
    /// Whoever has the fewest under way.
    LeastLoaded,
    RoundRobin,
}

/// Whose name an upstream is asked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HostHeader {
    /// The one that the client asked for.
    Preserve,
    /// The upstream's own.
    Upstream,
}

/// How upstreams are asked whether they are well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct HealthCheck {
    pub(crate) path: PathAndQuery,
    pub(crate) every: Duration,
    pub(crate) timeout: Duration,
}

impl Settings {
    /// One upstream, and for the rest what is usual.
    pub(crate) fn of(upstreams: Vec<Target>) -> Self {
        Self {
            upstreams,
            balance: Balance::LeastLoaded,
            ca_file: None,
            times: Times::default(),
            idle_connections_max: 256,
            requests_max: 10_000,
            waiting_max: 1000,
            host: HostHeader::Preserve,
            shed_status: StatusCode::TOO_MANY_REQUESTS,
            health: None,
            writes_forwarded: false,
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            response: Duration::from_mins(1),
            idle: Duration::from_mins(1),
            // Shorter than the five seconds of Node and many others: a request that meets a connection which is being
            // closed fails, and is not sent again.
            keep: Duration::from_secs(4),
        }
    }
}
