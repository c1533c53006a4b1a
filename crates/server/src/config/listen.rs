//! Where the doors are.

use std::path::PathBuf;

use super::node::Spot;
use super::problem::Problem;
use super::text::{self, DoorOptions};
use crate::listen::Address;

/// The doors that are open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listens {
    pub(crate) http: Option<Listen>,
    pub(crate) grpc: Option<Listen>,
    pub(crate) resp: Option<Listen>,
}

/// How one door is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Listen {
    pub(crate) address: Address,
    pub(crate) tls: Option<TlsFiles>,
    /// Whether a PROXY header names the client of each connection.
    pub(crate) proxy_protocol: bool,
    pub(crate) connections_max: Option<usize>,
}

/// Files for TLS, in PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) client_ca: Option<PathBuf>,
}

impl Default for Listens {
    fn default() -> Self {
        let address = Address::Tcp(([127, 0, 0, 1], 8080).into());
        Self { http: Some(Listen::on(address)), grpc: None, resp: None }
    }
}

impl Listen {
    pub(crate) fn on(address: Address) -> Self {
        Self { address, tls: None, proxy_protocol: false, connections_max: None }
    }
}

/// Checks where to listen; what is wrong is noted.
pub(crate) fn listens(
    text: Option<&text::Listen>,
    spot: &Spot<'_>,
    found: &mut Vec<Problem>,
) -> Listens {
    let Some(text) = text else { return Listens::default() };
    let mut door = |name: &str, text: Option<&text::Door>| listen(text?, &spot.of(name), found);
    let (http, grpc) = (door("http", text.http.as_ref()), door("grpc", text.grpc.as_ref()));
    let resp = door("resp", text.resp.as_ref());
    if text.http.is_none() && text.grpc.is_none() && text.resp.is_none() {
        found.push(spot.problem("no door is named: expected http, grpc or resp"));
    }
    Listens { http, grpc, resp }
}

fn listen(text: &text::Door, spot: &Spot<'_>, found: &mut Vec<Problem>) -> Option<Listen> {
    match text {
        text::Door::Address(address) => spot.note(address.parse(), found).map(Listen::on),
        text::Door::Map(options) => {
            let address = spot.of("address").note(options.address.parse(), found)?;
            Some(with_options(options, address))
        }
    }
}

fn with_options(options: &DoorOptions, address: Address) -> Listen {
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
    }
}
