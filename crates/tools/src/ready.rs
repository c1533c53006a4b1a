//! `tidegate ready`: asks a running server whether it is ready, and answers with the exit code. For health checks in
//! images that hold nothing but this binary.

use std::io::{self, Write};
use std::process::ExitCode;

use super::client::{self, ServerAddress};
use super::{Failure, OK};
use tidegate_core::text::printable;

const EXAMPLES: &str = "\
Examples:
  tidegate ready                                        is http://127.0.0.1:8080 ready?
  tidegate ready --server unix:/run/tidegate/http.sock  … or the server at this socket
  tidegate ready --strict                               … and does its store answer?

Exit codes: 0 ready, 1 not ready or not reached, 64 usage.";

/// Ask a running server whether it is ready, for health checks.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReadyArgs {
    /// The server to ask: its URL, or `unix:` and the path of its socket
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: ServerAddress,
    /// Not ready either while the store does not answer
    #[arg(long)]
    strict: bool,
}

/// Prints what the server answers, and exits with 0 if it is ready.
pub fn run(args: &ReadyArgs) -> Result<ExitCode, Failure> {
    let path = if args.strict { "/readyz?strict" } else { "/readyz" };
    let reply = client::send(&args.server, "GET", path, &[])?;
    let answer = printable(String::from_utf8_lossy(&reply.body).trim());
    if reply.status != 200 {
        return Err(Failure::new(format!("not ready: {answer}")));
    }
    // The exit code matters even if the pipe is closed.
    let _ = writeln!(io::stdout(), "{answer}");
    Ok(ExitCode::from(OK))
}
