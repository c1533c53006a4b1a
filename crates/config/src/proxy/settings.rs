//! The settings of the proxy, checked.

use std::path::PathBuf;
use std::time::Duration;

use http::StatusCode;
use http::uri::PathAndQuery;

use tidegate_request::PathPattern;

use super::target::Target;
use crate::per_client::PerClient;
use crate::text::{Balance, HostHeader, InFlightScope};

/// The settings of the proxy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// At least one.
    pub upstreams: Vec<Target>,
    pub balance: Balance,
    /// The certificate authorities of upstreams, instead of the system's.
    pub ca_file: Option<PathBuf>,
    pub times: Times,
    /// The most idle connections per upstream.
    pub idle_connections_max: usize,
    /// The most requests in flight; further ones are refused.
    pub requests_max: usize,
    /// The most requests at the upstreams.
    pub in_flight: Option<InFlightMax>,
    /// The most of them of one client.
    pub per_client: PerClient,
    /// The most requests that wait in leaky buckets.
    pub waiting_max: usize,
    pub host: HostHeader,
    /// The status of a request that is refused by one of these bounds.
    pub shed_status: StatusCode,
    pub health: Option<HealthCheck>,
    pub refusal: RefusalSettings,
    /// Whether upstreams get a `Forwarded` header as well.
    pub writes_forwarded: bool,
}

/// The most requests at the upstreams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlightMax {
    pub max: u64,
    /// Whose requests count.
    pub scope: InFlightScope,
}

/// Timeouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For the head of a response, after the request was sent.
    pub response: Duration,
    /// For the next part of a body.
    pub idle: Duration,
    /// For an idle connection.
    pub keep: Duration,
}

/// What refused clients get.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RefusalSettings {
    /// The page for people, instead of the built-in one.
    pub page: Option<PathBuf>,
    /// The file extensions of assets in lower case, instead of the usual ones.
    pub assets: Option<Vec<String>>,
    /// The paths of an API.
    pub api: Vec<PathPattern>,
}

/// Health checks of the upstreams.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthCheck {
    pub path: PathAndQuery,
    pub every: Duration,
    pub timeout: Duration,
}

impl Settings {
    /// Upstreams with default settings.
    pub fn for_upstreams(upstreams: Vec<Target>) -> Self {
        Self {
            upstreams,
            balance: Balance::LeastLoaded,
            ca_file: None,
            times: Times::default(),
            idle_connections_max: 256,
            requests_max: 10_000,
            in_flight: None,
            per_client: PerClient::default(),
            waiting_max: 1000,
            host: HostHeader::Preserve,
            shed_status: StatusCode::TOO_MANY_REQUESTS,
            health: None,
            refusal: RefusalSettings::default(),
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
            // Shorter than the five seconds of Node and many others: a request on a connection that the upstream closes
            // at that moment fails, and is not retried.
            keep: Duration::from_secs(4),
        }
    }
}
