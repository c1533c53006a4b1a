//! Parses the project's pages for tests: blocks, headings and links.

use std::fs;
use std::path::{Path, PathBuf};

use crate::programs::root;

/// A page, by its path from the root of the repository.
pub(crate) struct Page {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block {
    /// The words behind the fence: the language, then marks.
    pub(crate) info: Vec<String>,
    /// Of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// There is no text between it and the block before.
    pub(crate) adjacent: bool,
}

impl Block {
    pub(crate) fn language(&self) -> &str {
        self.info.first().map_or("", String::as_str)
    }

    /// The value of `name=VALUE`.
    pub(crate) fn mark(&self, name: &str) -> Option<&str> {
        self.info.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    pub(crate) fn says(&self, word: &str) -> bool {
        self.info.iter().skip(1).any(|it| it == word)
    }
}

/// Every page for people: at the root, in `docs`, and the READMEs of other folders.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    add_folder(&root(), &mut paths, |_| true);
    for folder in ["docs", "docs/guide"] {
        add_folder(&root().join(folder), &mut paths, |_| true);
    }
    for parent in ["clients", "deploy", "examples"].map(|parent| root().join(parent)) {
        add_folder(&parent, &mut paths, |name| name == "README.md");
        for folder in fs::read_dir(parent).into_iter().flatten() {
            add_folder(&folder.unwrap().path(), &mut paths, |name| name == "README.md");
        }
    }
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

fn add_folder(folder: &Path, paths: &mut Vec<PathBuf>, wanted: impl Fn(&str) -> bool) {
    // A missing folder has no pages.
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.extension().is_some_and(|it| it == "md") && wanted(&name) {
            paths.push(path.clone());
        }
    }
}

impl Page {
    pub(crate) fn read(path: &Path) -> Self {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        Self { name, text: fs::read_to_string(path).unwrap() }
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut open) = (Vec::<Block>::new(), false);
        let mut adjacent = false;
        for (index, line) in self.text.lines().enumerate() {
            if let Some(info) = line.trim_start().strip_prefix("```") {
                if open {
                    adjacent = true;
                } else {
                    let info = info.split_whitespace().map(str::to_owned).collect();
                    blocks.push(Block { info, line: index + 2, text: String::new(), adjacent });
                }
                open = !open;
            } else if open {
                let text = &mut blocks.last_mut().unwrap().text;
                text.push_str(line);
                text.push('\n');
            } else if !line.trim().is_empty() {
                adjacent = false;
            }
        }
        assert!(!open, "{}: a block has no end", self.name);
        blocks
    }

    /// The lines that are not code, with their numbers.
    pub(crate) fn prose(&self) -> Vec<(usize, &str)> {
        let mut open = false;
        let lines = self.text.lines().enumerate().filter(move |(_, line)| {
            let fence = line.trim_start().starts_with("```");
            open ^= fence;
            !open && !fence
        });
        lines.map(|(index, line)| (index + 1, line)).collect()
    }

    /// The anchors of this page, as GitHub derives them from the headings.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for (_, line) in self.prose() {
            let Some(heading) = line.strip_prefix('#') else { continue };
            let Some((_, heading)) = heading.trim_start_matches('#').split_once(' ') else {
                continue;
            };
            let plain = slug(heading);
            let again = |anchor: &String| {
                *anchor == plain || anchor.strip_prefix(&plain).is_some_and(is_count)
            };
            let count = anchors.iter().filter(|anchor| again(anchor)).count();
            anchors.push(if count == 0 { plain } else { format!("{plain}-{count}") });
        }
        anchors
    }

    /// The targets of links, with their line numbers.
    pub(crate) fn links(&self) -> Vec<(usize, &str)> {
        let mut links = Vec::new();
        for (number, line) in self.prose() {
            for rest in line.split("](").skip(1) {
                links.push((number, rest.split(')').next().unwrap()));
            }
        }
        links
    }
}

fn is_count(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|count| count.parse::<u32>().is_ok())
}

fn slug(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c => c.is_alphanumeric().then_some(c),
    };
    heading.trim().to_lowercase().chars().filter_map(kept).collect()
}
