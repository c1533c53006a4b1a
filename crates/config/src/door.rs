//! The doors, and the names in metrics for checks without a policy.

/// The policy label of checks with an unknown policy.
pub const UNKNOWN: &str = "(unknown)";
/// The policy label of checks whose request brings its own limit.
pub const BY_REQUEST: &str = "(request)";
/// No policy may have one of these names.
pub const RESERVED_NAMES: [&str; 2] = [UNKNOWN, BY_REQUEST];

/// A protocol that the server answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DoorName {
    Http,
    Grpc,
    Resp,
    Proxy,
}

impl DoorName {
    pub const ALL: [Self; 4] = [Self::Http, Self::Grpc, Self::Resp, Self::Proxy];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Proxy => "proxy",
        }
    }
}
