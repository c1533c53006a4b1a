//! `tidegate config`: the schema, an example, a reference, and imports from other limiters.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};

use tidegate_config::EXAMPLE;
use tidegate_tools::{Failure, OK, print};

const EXAMPLES: &str = "\
Examples:
  tidegate config example > tidegate.yaml      every key, with comments
  tidegate config schema > tidegate.schema.json
  tidegate config reference                    every key, as a Markdown table
  tidegate config import envoy config/ > tidegate.yaml
  tidegate config import limitador limits.yaml > tidegate.yaml

For completion in editors with a YAML language server, put this at the top of a file:
  # yaml-language-server: $schema=tidegate.schema.json";

/// Print the schema, an example or a reference of the configuration, or import another limiter's.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Print the JSON Schema (draft 2020-12)
    Schema,
    /// Print a commented example of everything
    Example,
    /// Print a table of all keys, in Markdown
    Reference,
    /// Print another limiter's configuration as a configuration of tidegate
    Import {
        /// The other limiter
        from: From,
        /// Its file; for envoy also a folder of files
        #[arg(value_name = "FILE")]
        path: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum From {
    /// envoyproxy/ratelimit
    Envoy,
    /// limitador
    Limitador,
}

/// Prints what was asked for.
pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode, Failure> {
    let text = match &args.what {
        What::Schema => format!("{:#}\n", tidegate_config::schema_for_editors()),
        What::Example => EXAMPLE.to_owned(),
        What::Reference => tidegate_config::reference(),
        What::Import { from, path } => import(*from, path)?,
    };
    print(text.as_bytes())?;
    Ok(ExitCode::from(OK))
}

fn import(from: From, path: &Path) -> Result<String, Failure> {
    let imported = match from {
        From::Envoy => tidegate_config::import::envoy(path),
        From::Limitador => tidegate_config::import::limitador(path),
    };
    imported.map_err(|lines| Failure::new(lines.join("\n")))
}
