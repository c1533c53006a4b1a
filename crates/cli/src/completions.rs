//! `tidegate completions` and `tidegate man`, generated from the definition of the command line.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use tidegate_tools::{Failure, OK, print};

use crate::cli::Cli;

const EXAMPLES: &str = "\
Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > \"${fpath[1]}/_tidegate\"
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish";

/// Print completions for a shell.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  tidegate man > /usr/local/share/man/man1/tidegate.1
  tidegate man | man -l -                            read it at once";

/// Print the manual page, with all commands.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct ManArgs {}

/// Prints completions.
pub(crate) fn run(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tidegate", &mut page);
    print(&page)?;
    Ok(ExitCode::from(OK))
}

/// Prints one page for the program, with a section for each command.
pub(crate) fn man(_: &ManArgs) -> Result<ExitCode, Failure> {
    let mut cli = Cli::command();
    cli.build();
    let mut page = Vec::new();
    let mut render = || -> io::Result<()> {
        clap_mangen::Man::new(cli.clone()).render(&mut page)?;
        commands(&cli, &mut page)
    };
    render().map_err(|error| Failure::new(error.to_string()))?;
    let page = String::from_utf8_lossy(&page).replace(" EXTRA\n", " EXAMPLES\n");
    print(page.as_bytes())?;
    Ok(ExitCode::from(OK))
}

fn commands(command: &clap::Command, out: &mut Vec<u8>) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let man = clap_mangen::Man::new(inner.clone());
        let mut part = Vec::new();
        man.render_description_section(&mut part)?;
        man.render_synopsis_section(&mut part)?;
        man.render_options_section(&mut part)?;
        if inner.get_after_help().is_some() {
            man.render_extra_section(&mut part)?;
        }
        let name = inner.get_bin_name().unwrap_or(inner.get_name()).to_uppercase();
        // The sections of a command are subsections of the page.
        let part = String::from_utf8_lossy(&part).replace("\n.SH ", "\n.SS ");
        write!(out, ".SH \"{name}\"\n{part}")?;
        commands(inner, out)?;
    }
    Ok(())
}
