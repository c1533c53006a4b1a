//! Envoy with its filter `adaptive_concurrency`: a gradient of latencies decides how many requests it passes on at once.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use super::Setup;
use crate::Fallible;
use crate::load::Client;
use crate::service::Service;

pub(crate) struct Envoy {
    pub(crate) service: Service,
    admin: Client,
}

/// What the filter says of itself.
#[derive(Serialize)]
pub(crate) struct Gradient {
    /// Requests that it refused.
    pub(crate) rq_blocked: u64,
    /// Requests that it last passed on at once.
    pub(crate) concurrency_limit: u64,
    /// The latency without load, as it measured it.
    pub(crate) min_rtt_msecs: u64,
}

#[derive(Deserialize)]
struct Listeners {
    listener_statuses: Vec<Listener>,
}

#[derive(Deserialize)]
struct Listener {
    local_address: Address,
}

#[derive(Deserialize)]
struct Address {
    socket_address: SocketAddress,
}

#[derive(Deserialize)]
struct SocketAddress {
    address: String,
    port_value: u16,
}

#[derive(Deserialize)]
struct Stats {
    stats: Vec<Stat>,
}

#[derive(Deserialize)]
struct Stat {
    name: String,
    value: u64,
}

impl Envoy {
    /// Starts Envoy in front of the app: it passes on at most `max` requests at once.
    pub(crate) async fn start(program: &Path, max: u32, setup: &Setup<'_>) -> Fallible<Self> {
        let variables = [("MAX", &*max.to_string())];
        let [folder, config] =
            setup.configured(&format!("envoy-{max}"), "envoy.yaml", &variables)?;
        let address = folder.join("admin");
        let mut envoy = Command::new(program);
        envoy.arg("-c").arg(config).arg("--admin-address-path").arg(&address);
        envoy.args(["--disable-hot-restart", "-l", "error"]);
        let service =
            Service::start_and_find(&mut envoy, async || proxy_url(&admin(&address)?).await);
        let service = service.await?;
        let admin = admin(&address).ok_or("Envoy has no admin address")?;
        Ok(Self { service, admin })
    }

    pub(crate) async fn gradient(&self) -> Fallible<Gradient> {
        let Stats { stats } =
            self.admin.json("/stats?filter=gradient_controller&format=json").await?;
        let stat = |name: &str| {
            let found = stats.iter().find(|it| it.name.ends_with(name)).map(|it| it.value);
            found.ok_or_else(|| format!("Envoy has no stat {name}"))
        };
        Ok(Gradient {
            rq_blocked: stat(".rq_blocked")?,
            concurrency_limit: stat(".concurrency_limit")?,
            min_rtt_msecs: stat(".min_rtt_msecs")?,
        })
    }
}

/// A client of the admin interface, once Envoy has written its address.
fn admin(address: &Path) -> Option<Client> {
    let address = fs::read_to_string(address).ok().filter(|it| !it.is_empty())?;
    Some(Client::new(&format!("http://{}", address.trim())))
}

async fn proxy_url(admin: &Client) -> Option<String> {
    let Listeners { listener_statuses } = admin.json("/listeners?format=json").await.ok()?;
    let SocketAddress { address, port_value } =
        &listener_statuses.first()?.local_address.socket_address;
    Some(format!("http://{address}:{port_value}"))
}
