//! The doors, and the names that decisions without a policy are counted under.

/// What checks of no policy are counted under.
pub const UNKNOWN: &str = "(unknown)";
/// What checks by limits of the request itself are counted under.
pub const BY_REQUEST: &str = "(request)";
/// No policy may be called so.
pub const RESERVED_NAMES: [&str; 2] = [UNKNOWN, BY_REQUEST];

/// The doors, as they are counted.
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
