//! Every public item is shown in an example. That the examples run is for `cargo test --doc` to say.

use std::collections::HashSet;
use std::path::Path;

/// Whether the fence that a documentation line stands in is Rust.
type Fence = Option<bool>;

#[test]
fn every_public_item_is_shown_in_an_example() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in ["core/src", "redis/src", "tidegate/src"] {
        sources(&crates.join(name), &mut files);
    }
    assert!(files.len() > 40, "too few files to be all: {}", files.len());
    let unrun: Vec<&str> = files
        .iter()
        .filter(|(_, text)| text.contains("```no_run"))
        .map(|it| it.0.as_str())
        .collect();
    let needs_a_server = |path: &&str| path.contains("/redis/src");
    assert!(unrun.iter().all(needs_a_server), "examples that could run, and do not: {unrun:?}");
    let missing: Vec<String> = files
        .iter()
        .flat_map(|(path, text)| {
            unshown(text).into_iter().map(move |name| format!("{path}: {name}"))
        })
        .collect();
    assert!(missing.is_empty(), "in no example: {missing:#?}");
}

#[test]
fn what_no_example_shows_is_noticed() {
    let check = |source: &str, expected: &[&str]| assert_eq!(unshown(source), expected, "{source}");
    check("/// ```\n/// shown();\n/// ```\npub fn shown() {}", &[]);
    check("/// It `is` told of.\npub fn is() {}", &["is"]);
    check("/// ```text\n/// name\n/// ```\npub struct name;", &["name"]);
    check("/// ```\n/// A.b\n/// ```\npub struct A {\n    pub b: u8,\n    pub c: u8,\n}", &["c"]);
    check("/// ```\n/// A::B\n/// ```\npub enum A {\n    B,\n    C(u8),\n}", &["C"]);
    // What stands by itself needs an example of its own.
    check("/// ```\n/// b(A)\n/// ```\npub struct A;\npub const fn b(a: A) {}", &["b"]);
    check("struct Private;\npub(crate) fn too() {}\npub use other::Name;\npub mod tower;", &[]);
}

fn sources(folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else {
            files.push((path.display().to_string(), std::fs::read_to_string(path).unwrap()));
        }
    }
}

/// The public items of a file that have no example of their own, and are no part of a type that an example in this
/// file names.
fn unshown(source: &str) -> Vec<&str> {
    let (mut fence, mut has_example, mut in_enum) = (Fence::None, false, false);
    let (mut shown, mut items) = (HashSet::new(), Vec::new());
    for line in source.lines().take_while(|line| *line != "mod tests {") {
        let text = line.trim_start();
        if let Some(doc) = text.strip_prefix("///").or(text.strip_prefix("//!")) {
            match (doc.trim().strip_prefix("```"), fence) {
                (Some(language), None) => fence = Some(["", "no_run"].contains(&language)),
                (Some(_), Some(_)) => fence = None,
                (None, Some(true)) => shown.extend(doc.split(|c| !is_of_a_name(c))),
                (None, _) => {}
            }
            has_example |= fence == Some(true);
            continue;
        }
        if text.starts_with("#[") {
            continue; // between an item and what is said of it
        }
        let alone = text.len() == line.len();
        if alone && !text.is_empty() {
            in_enum = text.starts_with("pub enum ");
        }
        let variant = in_enum && line.len() == text.len() + 4;
        let public = text.strip_prefix("pub ").and_then(name_of);
        if let Some(name) = public.or(name_of(text).filter(|_| variant)) {
            items.push((name, alone, has_example));
        }
        has_example = false;
    }
    items.retain(|(name, alone, own)| !own && (*alone || !shown.contains(name)));
    items.into_iter().map(|(name, ..)| name).collect()
}

/// The name in a declaration without its `pub`; none for modules and what is only passed on.
fn name_of(declaration: &str) -> Option<&str> {
    let mut words = declaration.split(|c| !is_of_a_name(c));
    let keywords = ["async", "const", "enum", "fn", "static", "struct", "trait", "type"];
    let name = words.find(|word| !keywords.contains(word))?;
    (!name.is_empty() && !["mod", "use"].contains(&name)).then_some(name)
}

fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
