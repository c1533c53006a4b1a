//! What a configuration says to the proxy, checked.

use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use http::uri::PathAndQuery;

use super::target::Target;

/// All of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// At least one.
    pub upstreams: Vec<Target>,
    pub balance: Balance,
    /// The authorities that upstreams are known by, instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub times: Times,
    /// How many connections are kept to each upstream while nobody uses them.
    pub idle_connections_max: usize,
    /// How many requests may be under way at once; more are turned away.
    pub requests_max: usize,
    /// How many requests may wait for their turn in a leaky bucket.
    pub waiting_max: usize,
    pub host: HostHeader,
    /// What those are told who are turned away because there is too much to do.
    pub shed_status: StatusCode,
    pub health: Option<HealthCheck>,
    /// Whether `Forwarded` is written as well.
    pub writes_forwarded: bool,
}

/// How long to wait for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// To be connected, TLS included.
    pub connect: Duration,
    /// For the head of an answer, from when the request was sent.
    pub response: Duration,
    /// For more of a body.
    pub idle: Duration,
    /// How long an unused connection is kept.
    pub keep: Duration,
}

/// Who of several upstreams gets a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Balance {
    /// Whoever has the fewest under way.
    LeastLoaded,
    RoundRobin,
}

/// Whose name an upstream is asked by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostHeader {
    /// The one that the client asked for.
    Preserve,
    /// The upstream's own.
    Upstream,
}

/// How upstreams are asked whether they are well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthCheck {
    pub path: PathAndQuery,
    pub every: Duration,
    pub timeout: Duration,
}

impl Settings {
    /// One upstream, and for the rest what is usual.
    pub fn of(upstreams: Vec<Target>) -> Self {
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
