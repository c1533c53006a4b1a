//! What `tidegate serve` is told about Envoy.

use std::path::PathBuf;

use super::Failure;
use crate::doors::rls::Manner;
use crate::envoy::{self, Rules};
use crate::listen::Address;

/// Envoy's rate limit service.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Envoy")]
pub(crate) struct EnvoyArgs {
    /// Answer Envoy's rate limit service over gRPC on this address, or `unix:/run/tidegate-grpc.sock`
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    pub(crate) grpc: Option<Address>,
    /// Rules as envoyproxy/ratelimit has them: a file, or a folder whose *.yaml and *.yml files are read
    #[arg(long, value_name = "PATH")]
    envoy_config: Option<PathBuf>,
    /// Whether a refused request charges nothing; with `false` its other limits are drained, as the original does
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    envoy_atomic: bool,
    /// Tell clients the tightest limit: RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset
    #[arg(long)]
    envoy_headers: bool,
    /// Admit everything in the end, and only report what would have been refused
    #[arg(long)]
    envoy_shadow: bool,
}

impl EnvoyArgs {
    /// How the service answers.
    pub(crate) fn manner(&self) -> Manner {
        Manner {
            is_atomic: self.envoy_atomic,
            adds_headers: self.envoy_headers,
            is_shadow: self.envoy_shadow,
        }
    }

    /// The rules, if there are any; otherwise everything that is wrong with them.
    pub(crate) fn rules(&self) -> Result<Option<Rules>, Failure> {
        let rules = self.envoy_config.as_ref().map(|path| envoy::load(path)).transpose();
        rules.map_err(|errors| {
            let lines: Vec<_> = errors.iter().map(|error| format!("\n  {error}")).collect();
            Failure::new(format!("the Envoy configuration cannot be used:{}", lines.concat()))
        })
    }
}
