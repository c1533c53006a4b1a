//! The addresses of the doors, and their options.

use std::path::PathBuf;

use super::node::Cursor;
use super::problem::Problem;
use super::secret::SecretSource;
use super::text::{self, DoorOptions};
use crate::address::Address;

const NO_TRUSTED_PROXY: &str = "is accepted from trusted proxies only, and there are none, so that every connection would \
    be closed: add the senders to `client_ip.trusted_proxies`";

/// The doors that are open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listens {
    pub http: Option<Listen>,
    pub grpc: Option<Listen>,
    pub resp: Option<Listen>,
    pub proxy: Option<Listen>,
}

/// The files of a certificate and its key, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The certificate chain.
    pub cert: PathBuf,
    pub key: PathBuf,
    /// The authority of client certificates. `None`: clients need none.
    pub client_ca: Option<PathBuf>,
}

/// The address and options of one door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    pub address: Address,
    pub tls: Option<TlsFiles>,
    /// Whether each connection starts with a PROXY protocol header.
    pub proxy_protocol: bool,
    pub connections_max: Option<usize>,
    /// The password that clients must send first.
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

    /// Whether it accepts the PROXY protocol from trusted proxies only. Over a Unix socket every peer is trusted.
    const fn needs_trust(&self) -> bool {
        self.proxy_protocol && matches!(self.address, Address::Tcp(_))
    }
}

/// Checks the addresses to listen on.
pub(crate) fn listens(
    file: &text::File,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Listens {
    let Some(text) = &file.listen else { return Listens::default() };
    let mut door =
        |name: &str, text: Option<&text::Door>| listen(text?, &cursor.field(name), problems);
    let (http, grpc) = (door("http", text.http.as_ref()), door("grpc", text.grpc.as_ref()));
    let (resp, proxy) = (door("resp", text.resp.as_ref()), door("proxy", text.proxy.as_ref()));
    let trusts_nobody = file.client_ip.as_ref().is_none_or(|it| it.trusted_proxies.is_empty());
    for (name, listen) in [("http", &http), ("grpc", &grpc), ("resp", &resp), ("proxy", &proxy)] {
        if trusts_nobody && listen.as_ref().is_some_and(Listen::needs_trust) {
            problems.push(cursor.field(name).field("proxy_protocol").problem(NO_TRUSTED_PROXY));
        }
    }
    for (name, listen) in [("http", &http), ("grpc", &grpc), ("proxy", &proxy)] {
        if listen.as_ref().is_some_and(|listen| listen.password.is_some()) {
            problems.push(cursor.field(name).problem("has no password: only `resp` has one"));
        }
    }
    if [&text.http, &text.grpc, &text.resp, &text.proxy].into_iter().all(Option::is_none) {
        problems.push(cursor.problem("has no door: expected http, grpc, resp or proxy"));
    }
    Listens { http, grpc, resp, proxy }
}

fn listen(text: &text::Door, cursor: &Cursor<'_>, problems: &mut Vec<Problem>) -> Option<Listen> {
    match text {
        text::Door::Address(address) => cursor.accept(address.parse(), problems).map(Listen::on),
        text::Door::Map(options) => {
            let address = cursor.field("address").accept(options.address.parse(), problems)?;
            let password = password(options, cursor, problems);
            Some(with_options(options, address, password))
        }
    }
}

fn password(
    options: &DoorOptions,
    cursor: &Cursor<'_>,
    problems: &mut Vec<Problem>,
) -> Option<SecretSource> {
    match (&options.password, &options.password_file) {
        (Some(password), None) => {
            if password.0.is_empty() {
                problems
                    .push(cursor.field("password").problem("is empty: set it, or remove the key"));
            }
            Some(SecretSource::Given(password.clone()))
        }
        (None, Some(file)) => Some(SecretSource::File(file.into())),
        (None, None) => None,
        (Some(_), Some(_)) => {
            let message = "and `password` are both given: give one of them";
            problems.push(cursor.field("password_file").problem(message));
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
