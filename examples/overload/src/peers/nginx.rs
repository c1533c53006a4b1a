//! nginx with `limit_req`: a static rate.

use std::path::Path;

use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::Setup;
use crate::Fallible;
use crate::service::Service;

/// A rate a second, and how many more requests may come at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    pub(crate) per_s: u64,
    pub(crate) burst: u64,
}

impl Rate {
    /// A rate whose burst is as much as comes in this many seconds.
    pub(crate) fn with_burst(per_s: u64, seconds: f64) -> Self {
        Self { per_s, burst: (per_s as f64 * seconds).round() as u64 }
    }
}

/// Starts nginx in front of the app. It cannot choose a free port itself.
pub(crate) async fn start(program: &Path, rate: Rate, setup: &Setup<'_>) -> Fallible<Service> {
    let listen = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let variables = [
        ("PORT", &*listen.port().to_string()),
        ("RATE", &rate.per_s.to_string()),
        ("BURST", &rate.burst.to_string()),
    ];
    let name = format!("nginx-{}", rate.burst);
    let [folder, config] = setup.configured(&name, "nginx.conf", &variables)?;
    let mut nginx = Command::new(program);
    nginx.arg("-p").arg(&folder).arg("-c").arg(config);
    Service::start_and_find(&mut nginx, async || {
        TcpStream::connect(listen).await.ok().map(|_| format!("http://{listen}"))
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_what_comes_in_its_seconds() {
        assert_eq!(Rate::with_burst(386, 0.1), Rate { per_s: 386, burst: 39 });
        assert_eq!(Rate::with_burst(386, 1.0), Rate { per_s: 386, burst: 386 });
    }
}
