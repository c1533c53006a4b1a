//! Prints findings: a table on a terminal, lines elsewhere, or JSON.

use std::fmt::Write;
use std::io::{self, IsTerminal};

use serde::Serialize;

use crate::Failure;
use crate::output::{print_report, wants_color};
use tidegate::driver::{Finding, Severity};

/// The width of the text beside the first two columns.
const WIDTH: usize = 84;
/// The width of the first two columns, and of the gap after each.
const SEVERITY: usize = 9;
const CHECK: usize = 16;

pub(super) fn print(findings: &[Finding], json: bool) -> Result<(), Failure> {
    print_report(&findings.iter().map(Row::from).collect::<Vec<_>>(), json, || {
        if io::stdout().is_terminal() { table(findings, wants_color()) } else { lines(findings) }
    })
}

/// A finding as JSON.
#[derive(Serialize)]
struct Row<'a> {
    severity: &'static str,
    check: &'static str,
    node: &'a str,
    seen: &'a str,
    risk: Option<&'a str>,
    remedy: Option<&'a str>,
}

impl<'a> From<&'a Finding> for Row<'a> {
    fn from(finding: &'a Finding) -> Self {
        let Finding { severity, check, node, seen, risk, remedy } = finding;
        let (risk, remedy) = (risk.as_deref(), remedy.as_deref());
        Self { severity: severity.as_str(), check, node, seen, risk, remedy }
    }
}

/// One line per finding, with all of it.
fn lines(findings: &[Finding]) -> String {
    let mut out = String::new();
    for finding in findings {
        let Finding { severity, check, node, seen, risk, remedy } = finding;
        let at = if node.is_empty() { String::new() } else { format!(" {node}") };
        let _ = write!(out, "{} {check}{at}: {seen}", severity.as_str());
        if let Some(risk) = risk {
            let _ = write!(out, "; risk: {risk}");
        }
        if let Some(remedy) = remedy {
            let _ = write!(out, "; remedy: {remedy}");
        }
        let _ = writeln!(out);
    }
    let _ = writeln!(out, "{}", summary(findings));
    out
}

/// A table per server. Where there are several, what is in order is only counted.
fn table(findings: &[Finding], color: bool) -> String {
    let mut out = String::new();
    let mut nodes: Vec<&str> = Vec::new();
    for finding in findings {
        if !nodes.contains(&finding.node.as_str()) {
            nodes.push(&finding.node);
        }
    }
    let servers = nodes.iter().filter(|node| !node.is_empty()).count();
    for node in nodes {
        let of_node = || findings.iter().filter(|finding| finding.node == node);
        let in_order = of_node().filter(|finding| finding.severity == Severity::Ok).count();
        let title = if node.is_empty() { "the store as a whole" } else { node };
        let _ = writeln!(out, "{title}");
        for finding in of_node() {
            if servers <= 1 || finding.severity != Severity::Ok {
                rows(&mut out, finding, color);
            }
        }
        if servers > 1 && in_order > 0 {
            let _ = writeln!(out, "  {}{in_order} more", badge(Severity::Ok, color));
        }
        let _ = writeln!(out);
    }
    let _ = writeln!(out, "{}", summary(findings));
    let sets = |finding: &Finding| {
        finding.remedy.as_ref().is_some_and(|remedy| remedy.contains("CONFIG SET"))
    };
    if findings.iter().any(sets) {
        out.push_str(
            "CONFIG SET lasts until a restart; CONFIG REWRITE then writes it to the file.\n",
        );
    }
    out
}

fn rows(out: &mut String, finding: &Finding, color: bool) {
    let Finding { severity, check, seen, risk, remedy, .. } = finding;
    let mut parts = wrapped(seen).into_iter();
    let first = parts.next().unwrap_or_default();
    let _ = writeln!(out, "  {}{check:<CHECK$}{first}", badge(*severity, color));
    let risk = risk.iter().flat_map(|risk| wrapped(&format!("risk: {risk}")));
    let (margin, dim, plain) = (" ".repeat(2 + SEVERITY + CHECK), dimmed(color).0, dimmed(color).1);
    for part in parts {
        let _ = writeln!(out, "{margin}{part}");
    }
    for part in risk {
        let _ = writeln!(out, "{margin}{dim}{part}{plain}");
    }
    // Not wrapped: it is there to be copied.
    if let Some(remedy) = remedy {
        let _ = writeln!(out, "{margin}{remedy}");
    }
}

fn badge(severity: Severity, color: bool) -> String {
    let code = match severity {
        _ if !color => return format!("{:<SEVERITY$}", severity.as_str()),
        Severity::Ok => "32",
        Severity::Note => "36",
        Severity::Warning => "33",
        Severity::Fault => "1;31",
    };
    format!("\x1b[{code}m{:<SEVERITY$}\x1b[0m", severity.as_str())
}

fn dimmed(color: bool) -> (&'static str, &'static str) {
    if color { ("\x1b[2m", "\x1b[0m") } else { ("", "") }
}

/// Lines of at most `WIDTH` characters, unless a word is longer.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn summary(findings: &[Finding]) -> String {
    let count = |severity| findings.iter().filter(|it| it.severity == severity).count();
    let count_of = |severity: Severity| {
        let (count, name) = (count(severity), severity.as_str());
        let s = if count == 1 || severity == Severity::Ok { "" } else { "s" };
        format!("{count} {name}{s}")
    };
    [Severity::Ok, Severity::Note, Severity::Warning, Severity::Fault].map(count_of).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        vec![
            Finding::ok("version", "Redis 7.0.15").at("h:1"),
            Finding::warning("maxmemory", "not set")
                .risk("it grows")
                .remedy("redis-cli X")
                .at("h:1"),
        ]
    }

    #[test]
    fn a_line_has_all_of_a_finding() {
        let expected = "ok version h:1: Redis 7.0.15\n\
             warning maxmemory h:1: not set; risk: it grows; remedy: redis-cli X\n\
             1 ok, 0 notes, 1 warning, 0 faults\n";
        assert_eq!(lines(&findings()), expected);
    }

    #[test]
    fn a_table_has_colours_only_where_they_are_wanted() {
        let plain = table(&findings(), false);
        assert!(plain.starts_with("h:1\n  ok       version         Redis 7.0.15\n"), "{plain}");
        assert!(plain.contains("\n  warning  maxmemory       not set\n"), "{plain}");
        assert!(!plain.contains('\x1b'), "{plain}");
        let coloured = table(&findings(), true);
        assert!(coloured.contains("\x1b[33mwarning"), "{coloured}");
    }

    #[test]
    fn long_text_is_wrapped_between_words() {
        let text = "word ".repeat(40);
        let lines = wrapped(text.trim_end());
        assert!(lines.len() == 3 && lines.iter().all(|line| line.len() <= WIDTH), "{lines:?}");
    }
}
