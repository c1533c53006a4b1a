//! Where the doors are.

use std::path::PathBuf;

use super::node::Spot;
use super::problem::Problem;
use super::secret::SecretSource;
use super::text::{self, DoorOptions};
use crate::address::Address;

const BELIEVED_FROM_NOBODY: &str = "is believed from nobody, so that every connection would be closed: name the networks \
    of those who send it in `client_ip.trusted_proxies`";

/// The doors that are open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listens {
    pub http: Option<Listen>,
    pub grpc: Option<Listen>,
    pub resp: Option<Listen>,
    pub proxy: Option<Listen>,
}

/// Where certificate and key are, as PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The certificate, and those up to the one that clients know.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// Who has to have signed the certificates of clients; without it they need none.
    pub client_ca: Option<PathBuf>,
}

/// How one door is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    pub address: Address,
    pub tls: Option<TlsFiles>,
    /// Whether a PROXY header names the client of each connection.
    pub proxy_protocol: bool,
    pub connections_max: Option<usize>,
    /// What clients have to say first.
    pub password: Option<SecretSource>,
}

impl Default for Listens {
    fn default() -> Self {
        let address = Address::Tcp(([127, 0, 0, 1], 8080).into());
        Self { http: Some(Listen::on(address)), grpc: None, resp: None, proxy: None }
    }
}

impl Listen {
    pub fn on(address: Address) -> Self {
        let (tls, proxy_protocol, connections_max, password) = (None, false, None, None);
        Self { address, tls, proxy_protocol, connections_max, password }
    }

    /// Whether the PROXY protocol has to come from somebody who is trusted. Over a Unix socket all are.
    const fn needs_trust(&self) -> bool {
        self.proxy_protocol && matches!(self.address, Address::Tcp(_))
    }
}

/// Checks where to listen; what is wrong is noted.
pub(crate) fn listens(file: &text::File, spot: &Spot<'_>, found: &mut Vec<Problem>) -> Listens {
    let Some(text) = &file.listen else { return Listens::default() };
    let mut door = |name: &str, text: Option<&text::Door>| listen(text?, &spot.of(name), found);
    let (http, grpc) = (door("http", text.http.as_ref()), door("grpc", text.grpc.as_ref()));
    let (resp, proxy) = (door("resp", text.resp.as_ref()), door("proxy", text.proxy.as_ref()));
    let trusts_nobody = file.client_ip.as_ref().is_none_or(|it| it.trusted_proxies.is_empty());
    for (name, listen) in [("http", &http), ("grpc", &grpc), ("resp", &resp), ("proxy", &proxy)] {
        if trusts_nobody && listen.as_ref().is_some_and(Listen::needs_trust) {
            found.push(spot.of(name).of("proxy_protocol").problem(BELIEVED_FROM_NOBODY));
        }
    }
    for (name, listen) in [("http", &http), ("grpc", &grpc), ("proxy", &proxy)] {
        if listen.as_ref().is_some_and(|listen| listen.password.is_some()) {
            found.push(spot.of(name).problem("has no password: only `resp` has"));
        }
    }
    if [&text.http, &text.grpc, &text.resp, &text.proxy].into_iter().all(Option::is_none) {
        found.push(spot.problem("no door is named: expected http, grpc, resp or proxy"));
    }
    Listens { http, grpc, resp, proxy }
}

fn listen(text: &text::Door, spot: &Spot<'_>, found: &mut Vec<Problem>) -> Option<Listen> {
    match text {
        text::Door::Address(address) => spot.note(address.parse(), found).map(Listen::on),
        text::Door::Map(options) => {
            let address = spot.of("address").note(options.address.parse(), found)?;
            let password = password(options, spot, found);
            Some(with_options(options, address, password))
        }
    }
}

fn password(
    options: &DoorOptions,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Option<SecretSource> {
    match (&options.password, &options.password_file) {
        (Some(password), None) => {
            if password.0.is_empty() {
                found.push(spot.of("password").problem("is empty: leave it out, or give one"));
            }
            Some(SecretSource::Given(password.clone()))
        }
        (None, Some(file)) => Some(SecretSource::File(file.into())),
        (None, None) => None,
        (Some(_), Some(_)) => {
            let message = "and `password` are both given: give one of them";
            found.push(spot.of("password_file").problem(message));
            None
        }
    }
}

fn with_options(options: &DoorOptions, address: Address, password: Option<SecretSource>) -> Listen {
    let tls = options.tls.as_ref().map(|tls| TlsFiles {
        cert: tls.cert.clone().into(),
        key: tls.key.clone().into(),
        client_ca: tls.client_ca.clone().map(Into::into),
    });
    Listen {
        address,
        tls,
        proxy_protocol: options.proxy_protocol.unwrap_or(false),
        connections_max: options.max_connections.and_then(|max| usize::try_from(max).ok()),
        password,
    }
}
