//! `tidegate ready`: asks a running server whether it serves, and answers with the exit code. For health checks where
//! there is nothing else to ask with, as in an image that holds this binary alone.

use std::io::{self, Write};
use std::process::ExitCode;

use super::client::{self, Place};
use super::{Failure, OK};
use tidegate_core::text::printable;

const EXAMPLES: &str = "\
Examples:
  tidegate ready                                        is http://127.0.0.1:8080 ready?
  tidegate ready --server unix:/run/tidegate/http.sock  … or who listens there
  tidegate ready --strict                               … and does its store answer?

Exit codes: 0 ready, 1 not ready or not reached, 64 usage.";

/// Ask a running server whether it is ready, for health checks.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The server to ask: its URL, or `unix:` and the path of its socket
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: Place,
    /// Not ready either while the store does not answer
    #[arg(long)]
    strict: bool,
}

/// Asks, prints what the server said, and exits with 0 if it is ready.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let path = if args.strict { "/readyz?strict" } else { "/readyz" };
    let reply = client::get(&args.server, path).map_err(Failure::new)?;
    let said = printable(String::from_utf8_lossy(&reply.body).trim());
    if reply.status != 200 {
        return Err(Failure::new(format!("not ready: {said}")));
    }
    // Who closed the pipe still gets the exit code.
    let _ = writeln!(io::stdout(), "{said}");
    Ok(ExitCode::from(OK))
}
