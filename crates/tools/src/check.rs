//! `tidegate check`: one check at a running server, answered by the exit code.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::client::{self, Reply, ServerAddress};
use super::{DENIED, Failure, OK};
use tidegate::EXACT_MAX;
use tidegate_core::text::{closest, printable, unknown_policy};

const EXAMPLES: &str = "\
Examples:
  tidegate check api user-42                    spend one unit
  tidegate check upload user-42 --cost 10       spend ten, all or none
  tidegate check api user-42 --cost 0           only look
  tidegate check api user-42 --json             the server's answer as it is
  tidegate check api user-42 --server http://10.0.0.7:8080
  tidegate check api \"$USER\" && ./deploy.sh     do it only if allowed
  tidegate check api -- -dash                   a key that begins with a dash

Exit codes: 0 allowed, 2 denied, 1 error, 64 usage.";

/// Ask a running server whether KEY may go ahead under POLICY.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The policy's name
    policy: String,
    /// The key to count, like a user or an address
    key: String,
    /// How many units to spend
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(..=EXACT_MAX))]
    cost: u64,
    /// The server to ask: its URL, or `unix:` and the path of its socket
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: ServerAddress,
    /// Print the server's answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct CheckBody<'a> {
    policy: &'a str,
    key: &'a str,
    cost: u64,
}

/// The fields of a decision that are printed.
#[derive(Deserialize)]
struct Decision {
    allowed: bool,
    limit: u64,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    binding: String,
}

/// Asks, prints, and exits with 0 if allowed and 2 if denied.
pub fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let reply = send(args)?;
    if reply.status != 200 {
        let status = || format!("the server answered with status {}", reply.status);
        let detail = client::problem_detail(&reply.body).unwrap_or_else(status);
        return Err(Failure::new(meant(args, reply.status).unwrap_or(detail)));
    }
    let decision: Decision = serde_json::from_slice(&reply.body)
        .map_err(|_| Failure::new(format!("{} does not answer like tidegate", args.server)))?;
    print(args.json, &reply.body, &decision);
    Ok(ExitCode::from(if decision.allowed { OK } else { DENIED }))
}

/// A guess at the policy that was meant, if the server knows no such policy. The server makes no guess: it would cost a
/// comparison with every policy, at everyone's wish.
fn meant(args: &CheckArgs, status: u16) -> Option<String> {
    if status != 404 {
        return None;
    }
    let reply = client::send(&args.server, "GET", "/v1/policies", b"").ok()?;
    let known: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&reply.body).ok()?;
    let known = known.keys().map(String::as_str);
    closest(&args.policy, known.clone())?;
    Some(unknown_policy(&args.policy, known))
}

fn send(args: &CheckArgs) -> Result<Reply, Failure> {
    let body = CheckBody { policy: &args.policy, key: &args.key, cost: args.cost };
    let body = serde_json::to_vec(&body).map_err(|error| Failure::new(error.to_string()))?;
    client::send(&args.server, "POST", "/v1/check", &body)
}

fn print(json: bool, body: &[u8], decision: &Decision) {
    let mut out = io::stdout().lock();
    // The exit code matters even if the pipe is closed.
    let _ = if json {
        out.write_all(body).and_then(|()| out.write_all(b"\n"))
    } else {
        writeln!(out, "{}", line(decision))
    };
}

/// One line for people.
fn line(decision: &Decision) -> String {
    let Decision { limit, remaining, .. } = decision;
    let binding = printable(&decision.binding);
    let left = format!("{remaining} of {limit} left in {binding}");
    match (decision.allowed, decision.retry_after_ms) {
        (true, _) => format!("allowed: {left}, all of it in {}", span(decision.reset_after_ms)),
        (false, Some(ms)) => format!("denied: {left}, come back in {}", span(ms)),
        (false, None) => format!("denied: {left}, and this cost will never be allowed"),
    }
}

/// A span in at most two units: `850ms`, `1.5s`, `12min 5s`.
fn span(ms: u64) -> String {
    let tenths = ms.div_ceil(100);
    // Rounded up in the smallest unit: waiting that long is always long enough.
    let (s, min, h) = (ms.div_ceil(1_000), ms.div_ceil(60_000), ms.div_ceil(3_600_000));
    if ms < 1_000 {
        format!("{ms}ms")
    } else if tenths < 600 {
        format!("{}.{}s", tenths / 10, tenths % 10)
    } else if s < 3_600 {
        format!("{}min {}s", s / 60, s % 60)
    } else if min < 1_440 {
        format!("{}h {}min", min / 60, min % 60)
    } else {
        format!("{}d {}h", h / 24, h % 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (ms, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_001, "1.1s"),
            (59_901, "1min 0s"),
            (59_900, "59.9s"),
            (61_000, "1min 1s"),
            (3_599_001, "1h 0min"),
            (3_600_001, "1h 1min"),
            (86_399_000, "1d 0h"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(span(ms), text);
        }
    }
}
