//! Shared helpers of the tests of `deploy/`: its files, third-party programs that check them, and the list of metrics.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::programs::root;

/// A file of `deploy/`.
pub(crate) fn text(path: &str) -> String {
    let path = root().join("deploy").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML stream, without empty ones.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let found: Vec<Value> = serde_saphyr::from_multiple(text).expect(text);
    found.into_iter().filter(|document| !document.is_null()).collect()
}

/// The only document of a YAML file of `deploy/`.
pub(crate) fn document(path: &str) -> Value {
    serde_saphyr::from_str(&text(path)).expect(path)
}

/// A program that `./dev clients` has installed.
pub(crate) fn tool(folder: &str, program: &str) -> Command {
    let path: PathBuf = root().join("target/clients").join(folder).join(program);
    assert!(path.exists(), "{} is missing: `./dev clients` installs it", path.display());
    Command::new(path)
}

/// The stdout of a program, or all its output if it fails.
pub(crate) fn ran(command: &mut Command) -> Result<String, String> {
    let ran = command.output().unwrap_or_else(|error| {
        panic!("cannot start {command:?}: {error}; `./dev clients` installs what the tests need")
    });
    let [stdout, stderr] = [ran.stdout, ran.stderr].map(|it| String::from_utf8(it).unwrap());
    if ran.status.success() { Ok(stdout) } else { Err(stdout + &stderr) }
}

/// The version of the workspace, and the Rust that it needs.
pub(crate) fn versions() -> (String, String) {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let of = |key: &str| {
        let line = manifest.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        line.trim_matches([' ', '=', '"']).to_owned()
    };
    (of("version"), of("rust-version"))
}

/// The names of all metrics, from the page that is generated from the code.
pub(crate) fn known_metrics() -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let mut known = BTreeSet::from(["up".to_owned()]);
    for line in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, rest) = line.split_once("` | ").unwrap();
        if rest.starts_with("histogram") {
            known.extend(["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}")));
        } else {
            known.insert(name.to_owned());
        }
    }
    assert!(known.len() > 40, "{known:?}");
    known
}

/// The metrics in a query: words outside of selectors, quotes, ranges and label lists that are not function calls.
pub(crate) fn metrics_of(query: &str) -> BTreeSet<String> {
    const WORDS: [&str; 8] = ["and", "or", "unless", "bool", "offset", "by", "without", "on"];
    let mut rest = query;
    let mut found = BTreeSet::new();
    while let Some(start) = rest.find(|char: char| is_of_name(char) || "\"{[".contains(char)) {
        rest = &rest[start..];
        let skipped_to = |end: char| rest[1..].find(end).map_or("", |at| &rest[at + 2..]);
        match rest.as_bytes()[0] {
            b'"' => rest = skipped_to('"'),
            b'{' => rest = skipped_to('}'),
            b'[' => rest = skipped_to(']'),
            _ => {
                let end = rest.find(|char| !is_of_name(char)).unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                let is_called =
                    ["(", "by ", "without "].iter().any(|it| after.trim_start().starts_with(it));
                rest = after;
                if WORDS[5..].contains(&word) {
                    rest = after.find(')').map_or("", |at| &after[at..]);
                } else if !is_called && !WORDS.contains(&word) && !is_number(word) {
                    found.insert(word.to_owned());
                }
            }
        }
    }
    found
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || "_:.".contains(char)
}

fn is_number(word: &str) -> bool {
    word.starts_with(|char: char| char.is_ascii_digit() || char == '.')
}

#[test]
fn metric_names_are_found_in_queries() {
    for (query, names) in [
        ("up == 0", &["up"][..]),
        (r#"sum by (le, policy) (rate(a_total{b="c_total"}[5m])) / 0.5 > 1e3"#, &["a_total"]),
        ("histogram_quantile(0.99, rate(a_bucket[5m])) and b or on (c) d", &["a_bucket", "b", "d"]),
        ("time() - max(a) by (b)", &["a"]),
    ] {
        let found: Vec<_> = metrics_of(query).into_iter().collect();
        assert_eq!(found, names, "{query}");
    }
}

/// The links of a page within the repository: `[…](path#section)`.
fn links(page: &str) -> Vec<String> {
    let links = page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    links.filter(|link| !link.contains("://")).map(str::to_owned).collect()
}

#[test]
fn deployment_pages_have_no_dead_links_and_name_every_folder() {
    for page in ["docs/deploy.md", "deploy/README.md"] {
        let path = root().join(page);
        let links = links(&fs::read_to_string(&path).unwrap());
        assert!(links.len() > 5, "{links:?}");
        for link in links {
            let (file, section) = link.split_once('#').unwrap_or((&link, ""));
            let to = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            assert!(to.exists(), "{page}: {link}");
            if !section.is_empty() {
                let text = fs::read_to_string(&to).unwrap().to_lowercase().replace(':', "");
                let title = format!("# {}\n", section.replace('-', " "));
                assert!(text.contains(&title), "{page}: {link}");
            }
        }
    }
    let page = text("README.md");
    for entry in fs::read_dir(root().join("deploy")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "README.md" || page.contains(&name), "{name}");
    }
}
