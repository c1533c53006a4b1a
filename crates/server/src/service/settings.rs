//! What a configuration says to the HTTP doors.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use tidegate::tower::Headers;

use tidegate_config::{DoorRules, SecretSource, checked_token};
use tidegate_request::ClientIp;
use tidegate_request::Routes;

/// All of it, checked. By default nobody is trusted, nothing is routed, and only this machine may administer.
#[derive(Clone, Default, Debug)]
pub(crate) struct Settings {
    /// How clients are told apart, behind which proxies.
    pub(crate) client_ip: ClientIp,
    /// What forward-auth limits.
    pub(crate) routes: Routes,
    /// Who may make the calls that change things.
    pub(crate) admin: AdminToken,
    /// Which headers tell a client about its limit.
    pub(crate) headers: Headers,
}

impl Settings {
    /// What a configuration says. The token is read now, so that a file that is missing is noticed.
    pub(crate) fn from_rules(rules: &DoorRules) -> Result<Self, String> {
        let admin = rules.admin_token.as_ref().map_or(Ok(AdminToken::default()), admin);
        Ok(Self {
            client_ip: rules.client_ip.clone(),
            routes: rules.routes(),
            admin: admin.map_err(|why| format!("admin.token_file: {why}"))?,
            headers: rules.headers,
        })
    }
}

/// Whoever has the token. One that the configuration itself gives was looked at with it.
fn admin(source: &SecretSource) -> Result<AdminToken, String> {
    AdminToken::new(&source.read()?.0).map_err(|why| format!("{source} {why}"))
}

/// The token that admin calls have to show. Without one they are answered on this machine only.
#[derive(Clone, Default)]
pub(crate) struct AdminToken(Option<Arc<[u8]>>);

impl AdminToken {
    /// An error says what is wrong with the token, and repeats nothing of it.
    pub(crate) fn new(token: &str) -> Result<Self, &'static str> {
        checked_token(token).map(|token| Self(Some(token.as_bytes().into())))
    }

    pub(crate) const fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is the one that was given, in constant time: how long it takes must not tell how much of a guess was
    /// right.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|token| bool::from(given.ct_eq(token)))
    }
}

impl fmt::Debug for AdminToken {
    /// Never the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "AdminToken(…)" } else { "AdminToken(none)" })
    }
}
