//! Every link within the project leads somewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::markdown::{Page, pages};
use crate::programs::root;

/// The problem with a link of a page, if there is one.
fn problem(page: &Page, link: &str) -> Option<String> {
    if ["http://", "https://", "mailto:"].iter().any(|scheme| link.starts_with(scheme)) {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = root().join(&page.name).parent().unwrap().to_path_buf();
    let found = if path.is_empty() {
        Ok(root().join(&page.name))
    } else {
        folder.join(path).canonicalize()
    };
    let Ok(target) = found else { return Some(format!("{path} is not there")) };
    anchor_trouble(&target, anchor)
}

fn anchor_trouble(target: &Path, anchor: &str) -> Option<String> {
    if anchor.is_empty() {
        return None;
    }
    let anchors = Page::read(target).anchors();
    let known = anchors.iter().any(|it| it == anchor);
    (!known).then(|| format!("no heading #{anchor}, there are {anchors:?}"))
}

#[test]
fn there_is_no_dead_link() {
    let (mut dead, mut count) = (Vec::new(), 0);
    for page in pages() {
        for (line, link) in page.links() {
            count += 1;
            let problem =
                problem(&page, link).map(|why| format!("{}:{line}: {link}: {why}", page.name));
            dead.extend(problem);
        }
    }
    assert!(count > 100, "only {count} links");
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn a_dead_link_is_noticed() {
    let page = Page { name: "docs/README.md".to_owned(), text: String::new() };
    assert_eq!(problem(&page, "redis.md#sizing"), None);
    assert_eq!(problem(&page, "../deploy/nginx/tidegate.conf"), None);
    for dead in ["rediss.md", "redis.md#size", "#nothing", "../deploy/nothing"] {
        assert!(problem(&page, dead).is_some(), "{dead}");
    }
}

/// The pages that the index of `docs/` links to.
fn indexed() -> BTreeSet<PathBuf> {
    let index = Page::read(&root().join("docs/README.md"));
    let files = index.links().into_iter().map(|(_, link)| link.split('#').next().unwrap());
    files.filter_map(|file| root().join("docs").join(file).canonicalize().ok()).collect()
}

#[test]
fn the_index_links_to_every_page() {
    let (index, here) = (root().join("docs/README.md"), root().join("docs"));
    let mut pages: Vec<_> = fs::read_dir(here).unwrap().map(|it| it.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|it| it == "md") && *path != index);
    pages.extend(
        ["deploy", "clients/node", "clients/python"].map(|it| root().join(it).join("README.md")),
    );
    let indexed = indexed();
    let lost: Vec<_> =
        pages.iter().filter(|it| !indexed.contains(&it.canonicalize().unwrap())).collect();
    assert!(lost.is_empty(), "docs/README.md does not lead to {lost:?}");
}

/// Alerts, dashboards and comments of deployment files name headings as `docs/PAGE.md#heading`; these must exist.
#[test]
fn pages_named_by_deployment_files_exist() {
    let mut folders = vec![root().join("deploy")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                check_mentions(&path);
            }
        }
    }
}

fn check_mentions(path: &Path) {
    let Ok(text) = fs::read_to_string(path) else { return };
    for rest in text.split("docs/").skip(1) {
        let letters = |c: char| c.is_ascii_alphanumeric() || "-_./#".contains(c);
        let named = rest.split(|c| !letters(c)).next().unwrap().trim_end_matches('.');
        let (page, anchor) = named.split_once('#').unwrap_or((named, ""));
        if Path::new(page).extension().is_none_or(|it| it != "md") {
            continue;
        }
        let target = root().join("docs").join(page);
        assert!(target.exists(), "{}: docs/{page} does not exist", path.display());
        assert_eq!(anchor_trouble(&target, anchor), None, "{}", path.display());
    }
}
