//! A child process that serves on a free port.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{sleep, timeout};

use crate::Fallible;

/// How long it may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The process, killed when this is dropped.
pub(crate) struct Service {
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    _child: Child,
    /// Kept open, so that the process can continue to write.
    _stdout: Option<BufReader<ChildStdout>>,
}

impl Service {
    /// Starts the process; it prints its URL after `marker`.
    pub(crate) async fn start(command: &mut Command, marker: &str) -> Fallible<Self> {
        let program = name(command);
        let mut child = spawn(command.stdout(Stdio::piped()))?;
        let Some(stdout) = child.stdout.take() else { return Err("no output".into()) };
        let mut stdout = BufReader::new(stdout);
        match timeout(START_TIMEOUT, url_after(&mut stdout, marker)).await {
            Ok(Some(url)) => Ok(Self { url, _child: child, _stdout: Some(stdout) }),
            Ok(None) => Err(format!("{program} ended before it said `{marker}`").into()),
            Err(_) => Err(format!("{program} did not say `{marker}` in {START_TIMEOUT:?}").into()),
        }
    }

    /// Starts a process that prints no URL, and asks `find` for it until the process serves.
    pub(crate) async fn start_and_find(
        command: &mut Command,
        find: impl AsyncFn() -> Option<String>,
    ) -> Fallible<Self> {
        let program = name(command);
        let mut child = spawn(command.stdout(Stdio::null()))?;
        let found = async {
            loop {
                if let Some(status) = child.try_wait()? {
                    return Fallible::Err(format!("{program} ended: {status}").into());
                }
                if let Some(url) = find().await {
                    return Ok(url);
                }
                sleep(Duration::from_millis(20)).await;
            }
        };
        match timeout(START_TIMEOUT, found).await {
            Ok(url) => Ok(Self { url: url?, _child: child, _stdout: None }),
            Err(_) => Err(format!("{program} does not serve after {START_TIMEOUT:?}").into()),
        }
    }
}

fn name(command: &Command) -> String {
    command.as_std().get_program().display().to_string()
}

/// Starts the process in its own process group: Ctrl-C only interrupts the demo, which then kills this.
fn spawn(command: &mut Command) -> Fallible<Child> {
    command.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    command.spawn().map_err(|error| format!("{}: {error}", name(command)).into())
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
