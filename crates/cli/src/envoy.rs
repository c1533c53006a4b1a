//! The options of `tidegate serve` for Envoy.

use std::path::PathBuf;

use tidegate_config::Address;
use tidegate_config::envoy;
use tidegate_config::{AnswerStyle, Rls, Shadow};

/// Envoy's rate limit service.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Envoy")]
pub(crate) struct EnvoyArgs {
    /// Answer Envoy's rate limit service over gRPC on this address, or `unix:/run/tidegate-grpc.sock`
    #[arg(long, value_name = "ADDR", value_parser = str::parse::<Address>)]
    pub(crate) grpc: Option<Address>,
    /// Rules of envoyproxy/ratelimit: a file, or a folder with *.yaml and *.yml files
    #[arg(long, value_name = "PATH")]
    envoy_config: Option<PathBuf>,
    /// Whether a refused request charges nothing; `false` charges its other limits, as envoyproxy/ratelimit does
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set)]
    envoy_atomic: Option<bool>,
    /// Send the tightest limit to clients: RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset
    #[arg(long)]
    envoy_headers: bool,
    /// Admit every request, and report would-be refusals
    #[arg(long)]
    envoy_shadow: bool,
}

impl EnvoyArgs {
    /// The path of the rules, if there are any.
    pub(crate) fn path(&self) -> Option<&PathBuf> {
        self.envoy_config.as_ref()
    }

    /// The rules and options of the service: arguments override the configuration file. An error is a line per problem in
    /// the rules.
    pub(crate) fn rls(&self, written: AnswerStyle) -> Result<Rls, Vec<String>> {
        let rules = self.path().map(|path| envoy::load(path)).transpose();
        let lines =
            |errors: Vec<envoy::Error>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        let style = AnswerStyle {
            is_atomic: self.envoy_atomic.unwrap_or(written.is_atomic),
            adds_headers: self.envoy_headers || written.adds_headers,
            shadow: if self.envoy_shadow {
                written.shadow.max(Shadow::Envoy)
            } else {
                written.shadow
            },
        };
        Ok(Rls { rules: rules.map_err(lines)?.unwrap_or_default(), style })
    }
}
