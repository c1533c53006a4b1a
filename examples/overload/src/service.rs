//! A program that answers on a port of its own, which it tells in its first lines.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::Fallible;

/// How long it may take to say so.
const PATIENCE: Duration = Duration::from_secs(30);

/// Killed when dropped.
pub(crate) struct Service {
    /// `http://127.0.0.1:PORT`
    pub(crate) url: String,
    _child: Child,
    /// Kept, so that it can go on writing.
    _stdout: BufReader<ChildStdout>,
}

impl Service {
    /// Starts it; the address stands behind `sign`.
    pub(crate) async fn start(command: &mut Command, sign: &str) -> Fallible<Self> {
        let program = command.as_std().get_program().display().to_string();
        // In a group of its own: Ctrl-C is for the demo alone, which then ends this.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        let Some(stdout) = child.stdout.take() else { return Err("no output".into()) };
        let mut stdout = BufReader::new(stdout);
        match timeout(PATIENCE, told(&mut stdout, sign)).await {
            Ok(Some(url)) => Ok(Self { url, _child: child, _stdout: stdout }),
            Ok(None) => Err(format!("{program} ended before it said `{sign}`").into()),
            Err(_) => Err(format!("{program} did not say `{sign}` in {PATIENCE:?}").into()),
        }
    }
}

/// The word behind the sign.
async fn told(stdout: &mut BufReader<ChildStdout>, sign: &str) -> Option<String> {
    let mut line = String::new();
    while stdout.read_line(&mut line).await.ok()? > 0 {
        if let Some((_, rest)) = line.split_once(sign) {
            return rest.split_whitespace().next().map(str::to_owned);
        }
        line.clear();
    }
    None
}
