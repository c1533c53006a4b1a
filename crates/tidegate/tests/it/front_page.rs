//! What a reader of docs.rs sees first.

use std::path::Path;

/// All that the root of the crate shows besides its modules.
const IN_FRONT: [&str; 6] = ["Decision", "Engine", "Limit", "Limiter", "Policy", "Shaper"];

/// The names that a root re-exports and does not hide.
fn shown(root: &str) -> Vec<String> {
    let code: String =
        root.lines().filter(|line| !line.starts_with("//")).flat_map(|line| [line, "\n"]).collect();
    let statements = code.split(';').map(str::trim);
    let shown = statements.filter(|it| it.contains("pub use") && !it.contains("#[doc(hidden)]"));
    let names = shown.flat_map(|it| {
        let paths = it.split_once("pub use").map_or("", |(_, paths)| paths);
        let list = paths.split_once('{').map_or(paths, |(_, list)| list);
        list.trim_end_matches('}').split(',').map(|path| path.rsplit("::").next().unwrap_or(path))
    });
    let mut names: Vec<_> = names.map(|name| name.trim().to_owned()).collect();
    names.retain(|name| !name.is_empty());
    names.sort();
    names
}

#[test]
fn six_types_stand_in_front() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
    assert_eq!(shown(&std::fs::read_to_string(root).unwrap()), IN_FRONT);
}

#[test]
fn what_is_not_hidden_is_noticed() {
    let root = "pub use a::B;\n#[doc(hidden)]\npub use a::{C, D};\n#[doc(inline)]\npub use b::{E, c::F,};\n";
    assert_eq!(shown(root), ["B", "E", "F"]);
}

#[test]
fn docs_rs_documents_every_feature_of_every_published_crate() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut published = 0;
    for folder in std::fs::read_dir(crates).unwrap() {
        let manifest = folder.unwrap().path().join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&manifest) else { continue };
        if !text.contains("\npublish = false") {
            published += 1;
            let metadata = "\n[package.metadata.docs.rs]\nall-features = true\n";
            assert!(text.contains(metadata), "{}: add {metadata}", manifest.display());
        }
    }
    assert!(published >= 13, "too few to be all: {published}");
}
