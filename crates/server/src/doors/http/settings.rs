//! What a configuration says to the HTTP doors.

use tidegate::tower::Headers;

use super::admin::Admin;
use crate::config::{DoorRules, SecretSource};
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

impl Settings {
    /// What a configuration says. The token is read now, so that a file that is missing is noticed.
    pub(crate) fn from_rules(rules: &DoorRules) -> Result<Self, String> {
        let admin = rules.admin_token.as_ref().map_or(Ok(Admin::default()), admin);
        Ok(Self {
            client_ip: rules.client_ip.clone(),
            routes: rules.routes(),
            admin: admin.map_err(|why| format!("admin.token_file: {why}"))?,
            headers: rules.headers,
        })
    }
}

/// Whoever has the token. One that the configuration itself gives was looked at with it.
fn admin(source: &SecretSource) -> Result<Admin, String> {
    Admin::with_token(&source.read()?.0).map_err(|why| format!("{source} {why}"))
}
