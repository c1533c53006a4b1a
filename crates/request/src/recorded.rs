//! A request as a log tells it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderMap;

use super::forwarded::{Doubtful, host_name, split, upper_case};
use super::{ClientIp, Path, Seen};

/// What was written down of a request.
pub struct Recorded<'a> {
    /// Whoever wrote the log has decided who the client is.
    pub client: IpAddr,
    pub method: &'a str,
    /// Empty if it is not known.
    pub host: &'a str,
    /// `/path?query`, or a whole URL.
    pub target: &'a str,
    pub headers: HeaderMap,
}

impl<'a> Seen<'a> {
    pub fn recorded(client_ip: &'a ClientIp, recorded: Recorded<'a>) -> Result<Self, Doubtful> {
        let (path, query) = split(recorded.target);
        Ok(Self {
            client: recorded.client,
            method: upper_case(recorded.method),
            host: host_name(recorded.host),
            path: Path::read(path).map_err(Doubtful::Path)?,
            query: query.into(),
            headers: Cow::Owned(recorded.headers),
            client_ip,
        })
    }
}
