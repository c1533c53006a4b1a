//! What a configuration says to the HTTP doors.

use tidegate::tower::Headers;

use super::admin::Admin;
use crate::doors::forward_auth::Routes;
use crate::identity::ClientIp;

/// All of it, checked. By default nobody is trusted, nothing is routed, and only this machine may administer.
#[derive(Clone, Default, Debug)]
pub(crate) struct Settings {
    /// How clients are told apart, behind which proxies.
    pub(crate) client_ip: ClientIp,
    /// What forward-auth limits.
    pub(crate) routes: Routes,
    /// Who may make the calls that change things.
    pub(crate) admin: Admin,
    /// Which headers tell a client about its limit.
    pub(crate) headers: Headers,
}
