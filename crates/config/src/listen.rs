//! The addresses of the doors, and their options.

use std::collections::BTreeMap;

use super::address::Address;
use super::door::Door;
use super::node::Cursor;
use super::per_client::PerClient;
use super::secret::{SecretSource, TOKEN_BYTES_MIN};
use super::text::{self, DoorOptions, TlsFiles};

const NO_TRUSTED_PROXY: &str = "is accepted from trusted proxies only, and there are none, so that every connection would \
    be closed: add the senders to `client_ip.trusted_proxies`";

const COUNTED_PROXIES: &str = "needs `trusted_proxies` in place of `trusted_hops`: it is accepted from named senders only, or \
    every connection would be closed";

/// The address and options of one door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    pub address: Address,
    pub tls: Option<TlsFiles>,
    /// Whether each connection starts with a PROXY protocol header.
    pub proxy_protocol: bool,
    pub connections_max: Option<usize>,
    /// The most connections of one client.
    pub per_client: PerClient,
    /// The password that clients must send first.
    pub password: Option<SecretSource>,
}

impl Listener {
    pub fn on(address: Address) -> Self {
        Self {
            address,
            tls: None,
            proxy_protocol: false,
            connections_max: None,
            per_client: PerClient::default(),
            password: None,
        }
    }

    /// Whether it accepts the PROXY protocol from trusted proxies only. Over a Unix socket every peer is trusted.
    const fn needs_trust(&self) -> bool {
        self.proxy_protocol && matches!(self.address, Address::Tcp(_))
    }
}

/// Checks the addresses to listen on. A door without one stays closed.
pub(crate) fn listeners(file: &text::File, cursor: &Cursor<'_>) -> BTreeMap<Door, Listener> {
    let Some(text) = &file.listen else {
        let address = Address::Tcp(([127, 0, 0, 1], 8080).into());
        return BTreeMap::from([(Door::Http, Listener::on(address))]);
    };
    let given = |door: Door| Some((door, listen(text.get(door)?, &cursor.field(door.as_str()))?));
    let listeners: BTreeMap<_, _> = Door::ALL.into_iter().filter_map(given).collect();
    let trusts_nobody = file.client_ip.as_ref().is_none_or(|it| it.trusted_proxies.is_empty());
    for (door, listener) in &listeners {
        let cursor = cursor.field(door.as_str());
        if trusts_nobody && listener.needs_trust() {
            let counts = file.client_ip.as_ref().is_some_and(|it| it.trusted_hops.is_some());
            let message = if counts { COUNTED_PROXIES } else { NO_TRUSTED_PROXY };
            cursor.field("proxy_protocol").report(message);
        }
        if *door != Door::Resp && listener.password.is_some() {
            cursor.report("has no password: only `resp` has one");
        }
    }
    if Door::ALL.into_iter().all(|door| text.get(door).is_none()) {
        let names = Door::ALL.map(Door::as_str).join(", ");
        cursor.report(format!("has no door: expected one of {names}"));
    }
    listeners
}

fn listen(text: &text::Door, cursor: &Cursor<'_>) -> Option<Listener> {
    match text {
        text::Door::Address(address) => cursor.accept(address.parse()).map(Listener::on),
        text::Door::Map(options) => {
            let address = cursor.field("address").accept(options.address.parse())?;
            Some(Listener {
                address,
                tls: options.tls.clone(),
                proxy_protocol: options.proxy_protocol.unwrap_or(false),
                connections_max: options.max_connections.and_then(|max| usize::try_from(max).ok()),
                per_client: options.per_client.into(),
                password: password(options, cursor),
            })
        }
    }
}

fn password(options: &DoorOptions, cursor: &Cursor<'_>) -> Option<SecretSource> {
    let (given, file) = (options.password.as_ref(), options.password_file.as_ref());
    let password = SecretSource::choose("password", given, file, cursor);
    if matches!(&password, Some(SecretSource::Given(password)) if password.0.is_empty()) {
        cursor.field("password").report("is empty: set it, or remove the key");
    }
    if let Some(SecretSource::Given(password)) = &password
        && let Some(warning) = short_password(password.0.len())
    {
        cursor.field("password").warn(warning);
    }
    password
}

/// The warning for a password that can be guessed. It does not repeat the password.
pub fn short_password(bytes: usize) -> Option<String> {
    let is_short = (1..TOKEN_BYTES_MIN).contains(&bytes);
    is_short.then(|| {
        format!("is shorter than {TOKEN_BYTES_MIN} bytes: it can be guessed; take a longer one")
    })
}
