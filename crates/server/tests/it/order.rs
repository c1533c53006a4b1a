//! The server's modules have one order. Each imports only modules above it, so that there are no cycles.

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// From the module without imports to the one that imports all others. ARCHITECTURE.md describes each.
const ORDER: [&str; 17] = [
    "net",
    "metrics",
    "telemetry",
    "logs",
    "stats",
    "adaptive",
    "upstreams",
    "service",
    "dashboard",
    "doors/shared",
    "doors/forward_auth",
    "doors/resp",
    "doors/grpc",
    "doors/proxy",
    "doors/http",
    "doors",
    "run",
];

/// The rank of a module path like `["doors", "http", "body"]`.
fn rank(path: &[&str]) -> Option<usize> {
    let door = path.get(..2).map(|two| two.join("/"));
    let position = |name: &str| ORDER.iter().position(|module| *module == name);
    door.and_then(|door| position(&door)).or_else(|| position(path.first()?))
}

/// Code without comments, strings and the tests at the end of a file.
fn code(source: &str) -> String {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut out = String::with_capacity(source.len());
    for line in source.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let outside = line.split('"').step_by(2).collect::<Vec<_>>().join("\"\"");
        out.push_str(&outside);
        out.push('\n');
    }
    out
}

/// The first names behind a path's start: `a::b` gives `[a, b]`, `{a::b, c}` gives `[a, b]` and `[c]`.
fn targets(rest: &str) -> Vec<Vec<&str>> {
    let Some(group) = rest.strip_prefix('{') else {
        let is_path = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
        let path = rest.split(|char| !is_path(char)).next().unwrap_or_default();
        return vec![path.split("::").filter(|name| !name.is_empty()).take(2).collect()];
    };
    let (mut found, mut depth, mut begin) = (Vec::new(), 0_u32, 0);
    for (at, char) in group.char_indices() {
        match char {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                found.extend(targets(group[begin..at].trim_start()));
                begin = at + 1;
                if char == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

/// Every path that leaves the file: from the root of the crate, or upwards from `module`.
fn imports<'s>(module: &[&'s str], code: &'s str) -> Vec<Vec<&'s str>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        found.extend(targets(&code[at + "crate::".len()..]));
    }
    for (at, _) in code.match_indices("super::") {
        if code[..at].ends_with("super::") {
            continue; // Counted from the first of them.
        }
        let supers = code[at..].split("super::").take_while(|part| part.is_empty()).count();
        let base = &module[..module.len().saturating_sub(supers)];
        let rest = &code[at + supers * "super::".len()..];
        found.extend(targets(rest).into_iter().map(|target| [base, &target].concat()));
    }
    found
}

/// Adds the imports of a file that are below it in the order.
fn upward(module: &[&str], source: &str, found: &mut String) {
    let code = code(source);
    let Some(mine) = rank(module) else {
        let _ = writeln!(found, "{} is not in the order", module.join("/"));
        return;
    };
    for target in imports(module, &code) {
        if rank(&target).is_some_and(|other| other > mine) {
            let _ = writeln!(found, "{} imports {}", module.join("/"), target.join("::"));
        }
    }
}

fn walk(folder: &Path, module: &mut Vec<String>, found: &mut String) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let is_rust = path.extension().is_some_and(|extension| extension == "rs");
        if name == "tests" || name == "lib" || !(is_rust || path.is_dir()) {
            continue;
        }
        module.push(name);
        if path.is_dir() {
            walk(&path, module, found);
        } else {
            let names: Vec<&str> = module.iter().map(String::as_str).collect();
            upward(&names, &fs::read_to_string(&path).unwrap(), found);
        }
        module.pop();
    }
}

#[test]
fn every_module_imports_only_modules_above_it() {
    let mut found = String::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut Vec::new(), &mut found);
    assert_eq!(found, "");
}

#[test]
fn an_upward_import_is_found_in_any_notation() {
    for (module, source, expected) in [
        (&["net", "tls"][..], "use crate::run::serve;", "net/tls imports run::serve\n"),
        (
            &["net"],
            "use crate::{logs::Lines, service};",
            "net imports logs::Lines\nnet imports service\n",
        ),
        (&["logs"], "fn f() { crate::doors::http::router() }", "logs imports doors::http\n"),
        (
            &["doors", "resp", "frame"],
            "use super::super::http::Body;",
            "doors/resp/frame imports doors::http\n",
        ),
        (&["doors", "resp"], "use super::shared::Problem;\nuse crate::net::Stream;", ""),
        (&["service"], "// crate::run::serve\nlet text = \"crate::run\";", ""),
        (&["service"], "#[cfg(test)]\nmod tests { use crate::run::serve; }", ""),
        (&["attic"], "", "attic is not in the order\n"),
    ] {
        let mut found = String::new();
        upward(module, source, &mut found);
        let found = found
            .replace("doors::http::Body", "doors::http")
            .replace("doors::http::router", "doors::http");
        assert_eq!(found, expected, "{source}");
    }
}
