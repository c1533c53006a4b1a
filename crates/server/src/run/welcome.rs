//! What is printed when a door is open: its address, and a command to try it.

use std::io::{self, Write};

use tidegate_config::{Address, Config, Door};
use tidegate_core::text::printable;

use super::BoundDoor;

/// Programs that start a server read the printed lines in this order.
pub(super) const fn order(door: Door) -> u8 {
    match door {
        Door::Http => 0,
        Door::Resp => 1,
        Door::Grpc => 2,
        Door::Proxy => 3,
    }
}

/// Prints where a door listens, and logs it.
pub(super) fn print(door: Door, bound: &BoundDoor, config: &Config) {
    let Ok(addr) = bound.listener.address() else { return };
    match door {
        Door::Http => tracing::info!(%addr, "listening"),
        Door::Grpc => tracing::info!(%addr, "listening for gRPC"),
        Door::Resp => tracing::info!(%addr, "listening for the Redis protocol"),
        Door::Proxy => tracing::info!(%addr, "listening for requests to pass on"),
    }
    let scheme = if bound.tls.is_some() { "https" } else { "http" };
    let policy = config.policies.keys().next().map(|name| printable(name));
    let text = match door {
        Door::Http => http(&addr, scheme, policy.as_deref()),
        Door::Grpc => format!("for Envoy: gRPC on {addr}\n"),
        Door::Resp => resp(&addr, policy.as_deref()),
        Door::Proxy => proxy(&addr, scheme, config),
    };
    // A closed standard output is no reason to fail.
    let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
}

fn http(addr: &Address, scheme: &str, policy: Option<&str>) -> String {
    // Without a policy there is nothing to check yet.
    let check = policy.map_or_else(
        || "/v1/policies".to_owned(),
        |policy| format!("/v1/check -d '{{\"policy\":\"{policy}\",\"key\":\"user-42\"}}'"),
    );
    match addr {
        Address::Unix(path) => format!(
            "tidegate listens on {addr}\n\
             try it:  curl -s --unix-socket {} http://tidegate{check}\n\
             Ctrl-C stops it\n",
            path.display()
        ),
        Address::Tcp(addr) => format!(
            "tidegate listens on {scheme}://{addr}\n\
             try it:  curl -s {scheme}://{addr}{check}\n\
             or open  {scheme}://{addr}/ in a browser; Ctrl-C stops it\n"
        ),
    }
}

fn resp(addr: &Address, policy: Option<&str>) -> String {
    // `CL.THROTTLE` brings its own limit.
    let command = policy.map_or_else(
        || "CL.THROTTLE user-42 15 30 60".to_owned(),
        |policy| format!("TG.CHECK {policy} user-42"),
    );
    let target = match addr {
        Address::Unix(path) => format!("-s {}", path.display()),
        Address::Tcp(addr) => format!("-h {} -p {}", addr.ip(), addr.port()),
    };
    format!("and the Redis protocol on {addr}:  redis-cli {target} {command}\n")
}

fn proxy(addr: &Address, scheme: &str, config: &Config) -> String {
    let upstreams = config.proxy.iter().flat_map(|settings| &settings.upstreams);
    let upstreams: Vec<_> = upstreams.map(ToString::to_string).collect();
    let from = match addr {
        Address::Unix(_) => addr.to_string(),
        Address::Tcp(addr) => format!("{scheme}://{addr}"),
    };
    format!("tidegate passes requests on from {from} to {}\n", upstreams.join(", "))
}
