//! The settings of the HTTP doors.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use tidegate::SystemClock;
use tidegate::tower::Headers;

use tidegate_config::{DoorRules, SecretSource, TokenKeys, checked_token};
use tidegate_request::{ClientIp, ClientRequest, Routes, TokenVerifier};

/// The default trusts no proxy, has no routes, and allows admin calls from this machine only.
#[derive(Clone, Default, Debug)]
pub(crate) struct Settings {
    /// The client address, and the trusted proxies.
    pub(crate) client_ip: ClientIp,
    /// The routes of forward-auth.
    pub(crate) routes: Routes,
    /// Verifies tokens of requests; `None` without `jwt`.
    tokens: Option<Arc<TokenVerifier>>,
    /// For calls that change something.
    pub(crate) admin: AdminToken,
    /// Names of the API, beside `localhost` and addresses.
    pub(crate) own_hosts: Vec<String>,
    /// The dialect of the rate limit headers.
    pub(crate) headers: Headers,
}

impl Settings {
    /// Reads the token and the keys now, so that a missing file is an error.
    pub(crate) fn from_rules(rules: &DoorRules) -> Result<Self, String> {
        let admin = rules.admin_token.as_ref().map_or(Ok(AdminToken::default()), admin);
        Ok(Self {
            client_ip: rules.client_ip.clone(),
            routes: rules.routes(),
            tokens: rules.token_keys.as_ref().map(TokenKeys::read).transpose()?.map(Arc::new),
            admin: admin.map_err(|why| format!("admin.token_file: {why}"))?,
            own_hosts: rules.own_hosts.clone(),
            headers: rules.headers,
        })
    }
}

impl Settings {
    /// The request with what can verify its token.
    pub(crate) fn identified<'a>(&'a self, request: ClientRequest<'a>) -> ClientRequest<'a> {
        match &self.tokens {
            Some(tokens) => request.verified_by(tokens, &SystemClock),
            None => request,
        }
    }

    /// Whether the API is called by this name, beside `localhost` and addresses.
    pub(crate) fn is_own_host(&self, host: &str) -> bool {
        self.own_hosts.iter().any(|own| own == host)
    }
}

fn admin(source: &SecretSource) -> Result<AdminToken, String> {
    AdminToken::new(&source.read()?.0).map_err(|why| format!("{source} {why}"))
}

/// The token of admin calls. Without one they are allowed from this machine only.
#[derive(Clone, Default)]
pub(crate) struct AdminToken(Option<Arc<[u8]>>);

impl AdminToken {
    /// The error does not contain the token.
    pub(crate) fn new(token: &str) -> Result<Self, &'static str> {
        checked_token(token).map(|token| Self(Some(token.as_bytes().into())))
    }

    pub(crate) const fn is_set(&self) -> bool {
        self.0.is_some()
    }

    /// Compares in constant time: the time must not reveal how much of a guess is right.
    pub(crate) fn is(&self, given: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|token| bool::from(given.ct_eq(token)))
    }
}

impl fmt::Debug for AdminToken {
    /// Does not print the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "AdminToken(…)" } else { "AdminToken(none)" })
    }
}
