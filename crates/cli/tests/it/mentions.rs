//! Commands, options and metrics that pages mention exist. They are compared with pages that are generated from the
//! code.

use crate::markdown::{Page, pages};
use crate::programs::root;
use crate::support::Server;

fn text_of(page: &str) -> String {
    Page::read(&root().join("docs").join(page)).text
}

/// What is wrong with a command, compared with the help of all commands.
fn command_trouble(command: &str, help: &str) -> Option<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let (count, text) = (1..=words.len().min(3)).rev().find_map(|count| {
        let heading = format!("\n## `{}`\n", words[..count].join(" "));
        help.split_once(&heading).map(|(_, rest)| (count, rest.split("\n## ").next().unwrap()))
    })?;
    let is_name = |word: &&&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    if let (1, Some(word)) = (count, words.get(1).filter(is_name)) {
        return Some(format!("{word} is no command"));
    }
    let mut options = words.iter().filter(|word| word.starts_with("--"));
    let unknown = options.find(|option| !text.contains(**option));
    unknown.map(|option| format!("it has no {option}"))
}

/// What is wrong with the name of a metric, compared with the generated list.
fn metric_trouble(name: &str, list: &str) -> Option<String> {
    let parts = ["", "_bucket", "_sum", "_count"];
    let mut names = parts.iter().filter_map(|part| name.strip_suffix(part));
    let known = names.any(|name| list.contains(&format!("| `{name}` |")));
    (!known).then(|| format!("no metric is called {name}"))
}

fn is_metric(word: &str) -> bool {
    let ours = [
        "tidegate_",
        "rate_limit_",
        "redis_lua_",
        "downstream_latency",
        "request_count_by",
        "request_resp",
    ];
    // Crates, and the start of a pattern.
    !["tidegate_core", "tidegate_redis"].contains(&word)
        && !word.ends_with('_')
        && ours.iter().any(|it| word.starts_with(it))
}

#[test]
fn mentioned_commands_exist() {
    let (help, mut count) = (text_of("cli.md"), 0);
    for page in pages() {
        for (number, line) in page.prose() {
            let code = line.split('`').skip(1).step_by(2);
            for command in
                code.filter(|code| code.starts_with("tidegate ") && !code.contains(" = "))
            {
                let trouble = command_trouble(command, &help);
                assert_eq!(trouble, None, "{}:{number}: {command}", page.name);
                count += 1;
            }
        }
    }
    assert!(count >= 40, "only {count}");
}

#[test]
fn mentioned_metrics_exist() {
    let (list, mut count) = (text_of("metrics.md"), 0);
    for page in pages() {
        for word in page.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            if is_metric(word) {
                assert_eq!(metric_trouble(word, &list), None, "{}", page.name);
                count += 1;
            }
        }
    }
    assert!(count >= 100, "only {count}");
}

#[test]
fn the_runbook_lists_every_kind_of_store_error() {
    let (server, runbook) = (Server::start(), text_of("runbook.md"));
    let metrics = server.get("/metrics").body;
    let series =
        metrics.lines().filter_map(|line| line.strip_prefix("tidegate_store_errors_total{kind=\""));
    let kinds: Vec<_> = series.map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(kinds.len() > 10, "{kinds:?}");
    for kind in kinds {
        let is_listed = |line: &str| line.starts_with("| `") && line.contains(&format!("`{kind}`"));
        assert!(runbook.lines().any(is_listed), "{kind}");
    }
}

#[test]
fn the_library_page_names_every_feature_of_the_crate() {
    let manifest = std::fs::read_to_string(root().join("crates/tidegate/Cargo.toml")).unwrap();
    let features = manifest.split("[features]\n").nth(1).unwrap().split("\n[").next().unwrap();
    let names = features.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<_> = names.filter_map(|line| line.split_once(" = ")).collect();
    assert!(names.len() > 5, "{names:?}");
    let page = text_of("library.md");
    let table = page.split("## Features of the crate").nth(1).unwrap();
    // The Redis store is a separate crate, named below the table.
    let is_ours = |name: &str| name != "default" && !name.starts_with("redis");
    for (name, _) in names.iter().filter(|(name, _)| is_ours(name)) {
        let rows = table.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        assert!(rows.into_iter().any(|row| row.contains(&format!("`{name}`"))), "{name}");
    }
}

#[test]
fn unknown_commands_and_metrics_are_noticed() {
    let (help, list) = (text_of("cli.md"), text_of("metrics.md"));
    for good in [
        "tidegate",
        "tidegate -c x",
        "tidegate simulate race --nodes 3",
        "tidegate replay - -c FILE",
    ] {
        assert_eq!(command_trouble(good, &help), None, "{good}");
    }
    for bad in ["tidegate brew", "tidegate serve --tea", "tidegate simulate race --tea 3"] {
        assert!(command_trouble(bad, &help).is_some(), "{bad}");
    }
    assert_eq!(metric_trouble("tidegate_check_duration_seconds_bucket", &list), None);
    assert!(metric_trouble("tidegate_cups_total", &list).is_some());
}
