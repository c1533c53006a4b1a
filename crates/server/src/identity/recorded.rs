//! A request as a log tells it.

use std::borrow::Cow;
use std::net::IpAddr;

use axum::http::HeaderMap;

use super::forwarded::{Doubtful, host_name, split, upper_case};
use super::{ClientIp, Path, Seen};

/// What was written down of a request.
pub(crate) struct Recorded<'a> {
    /// Whoever wrote the log has decided who the client is.
    pub(crate) client: IpAddr,
    pub(crate) method: &'a str,
    /// Empty if it is not known.
    pub(crate) host: &'a str,
    /// `/path?query`, or a whole URL.
    pub(crate) target: &'a str,
    pub(crate) headers: HeaderMap,
}

impl<'a> Seen<'a> {
    pub(crate) fn recorded(
        client_ip: &'a ClientIp,
        recorded: Recorded<'a>,
    ) -> Result<Self, Doubtful> {
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
