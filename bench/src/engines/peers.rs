//! rate-limiter-flexible on the same servers, in a Node process with as many askers: `peer.mjs`.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::contender::Contender;
use crate::load::ASKERS;
use crate::table::Figures;

/// Where `./dev bench engines` installs it with the pinned packages.
const SCRIPT: &str = "target/peers/node/peer.mjs";

/// Decisions per second and the like of one round, over the engine's servers.
pub(crate) fn round(contender: &Contender, keys: usize, time: Duration) -> Figures {
    let server_before = contender.cpu_s();
    let url = contender.url.split('?').next().unwrap_or_default();
    let args = [ASKERS, keys, time.as_millis() as usize].map(|number| number.to_string());
    let output = Command::new("node").arg(SCRIPT).arg(url).args(args).output();
    let output = output.expect("node is installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{SCRIPT} {url}: {error}");
    let reply: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let field = |name: &str| reply[name].as_f64().unwrap_or_else(|| panic!("no {name}: {reply}"));
    let (decisions, asked) = (field("decisions"), field("asked"));
    Figures {
        rate: decisions / field("seconds"),
        p50_us: field("p50_us"),
        p99_us: field("p99_us"),
        server_us: (contender.cpu_s() - server_before) * 1e6 / asked,
        own_us: field("cpu_us") / decisions,
        conflicts: 0.0,
    }
}
