//! A child process that serves on a free port and prints its URL.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Fallible;

/// How long it may take to print the URL.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The process, killed when this is dropped.
pub(crate) struct Service {
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    _child: Child,
    /// Kept open, so that the process can continue to write.
    _stdout: BufReader<ChildStdout>,
}

impl Service {
    /// Starts the process; it prints its URL after `marker`.
    pub(crate) async fn start(command: &mut Command, marker: &str) -> Fallible<Self> {
        let program = command.as_std().get_program().display().to_string();
        // In its own process group: Ctrl-C only interrupts the demo, which then kills this.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        let Some(stdout) = child.stdout.take() else { return Err("no output".into()) };
        let mut stdout = BufReader::new(stdout);
        match timeout(START_TIMEOUT, url_after(&mut stdout, marker)).await {
            Ok(Some(url)) => Ok(Self { url, _child: child, _stdout: stdout }),
            Ok(None) => Err(format!("{program} ended before it said `{marker}`").into()),
            Err(_) => Err(format!("{program} did not say `{marker}` in {START_TIMEOUT:?}").into()),
        }
    }
}

/// The first word after the marker.
async fn url_after(stdout: &mut BufReader<ChildStdout>, marker: &str) -> Option<String> {
    let mut line = String::new();
    while stdout.read_line(&mut line).await.ok()? > 0 {
        if let Some((_, rest)) = line.split_once(marker) {
            return rest.split_whitespace().next().map(str::to_owned);
        }
        line.clear();
    }
    None
}
