//! Pages that are generated from definitions. A stale page fails the tests; `UPDATE_DOCS=1 cargo test -p tidegate-cli
//! docs` regenerates it.

use std::fmt::Write;
use std::fs;

use clap::{Command, CommandFactory};

use crate::cli::Cli;

/// Compares a page with the generated one, or replaces it.
fn check(page: &str, made: impl FnOnce(&str) -> String) {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let found = fs::read_to_string(&path).unwrap_or_default();
    let made = made(&found);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, made).unwrap();
        return;
    }
    let hint = "UPDATE_DOCS=1 cargo test -p tidegate-cli docs";
    assert!(found == made, "docs/{page} is stale, or was edited by hand; make it with: {hint}");
}

#[test]
fn the_reference_of_the_configuration_is_not_stale() {
    check("configuration.md", |found| {
        let (begin, end) = ("<!-- reference: begin -->\n", "<!-- reference: end -->");
        let (before, rest) = found.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        format!("{before}{begin}{}{end}{after}", tidegate_config::reference())
    });
}

#[test]
fn the_page_of_the_command_line_is_not_stale() {
    check("cli.md", |_| {
        let mut page = String::from("# Command line\n\nAs `--help` of each command prints it.\n");
        add(&Cli::command().term_width(100), "", &mut page);
        page
    });
}

fn add(command: &Command, parent: &str, page: &mut String) {
    let name = format!("{parent}{}", command.get_name());
    let mut named = command.clone().bin_name(&name).term_width(100);
    let help = named.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        add(inner, &format!("{name} "), page);
    }
}
