//! The files of the page, embedded in the binary.

use std::borrow::Cow;
use std::sync::LazyLock;

use rapidhash::v3::rapidhash_v3;

#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Asset {
    path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) content: Cow<'static, str>,
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

macro_rules! assets {
    ($($kind:ident $path:literal;)*) => {
        /// Every file but the page itself. A new file is a line here.
        static ALL: LazyLock<Vec<Asset>> = LazyLock::new(|| vec![$(Asset {
            path: $path,
            kind: $kind,
            content: lean($kind, include_str!(concat!("../../web/", $path))),
        }),*]);
    };
}

assets! {
    JS "api.js";
    JS "app.js";
    JS "boot.js";
    JS "charts.js";
    JS "describe.js";
    JS "dom.js";
    JS "feed.js";
    JS "health.js";
    SVG "icon.svg";
    JS "live.js";
    JS "outage.js";
    JS "outcomes.js";
    JS "playground-controls.js";
    JS "playground-draw.js";
    JS "playground-experiments.js";
    JS "playground-replay.js";
    JS "playground.js";
    JS "plot.js";
    JS "policy.js";
    CSS "style.css";
    JS "vendor/uPlot.iife.min.js";
    TEXT "vendor/uPlot.LICENSE";
}

/// Removes comment lines and indentation from a script. Our scripts have no multi-line literals.
fn lean(kind: &str, whole: &'static str) -> Cow<'static, str> {
    if kind != JS {
        return whole.into();
    }
    let (mut lean, mut is_comment) = (String::with_capacity(whole.len()), false);
    for line in whole.lines().map(str::trim_start) {
        is_comment |= line.starts_with("/**");
        if !is_comment && !line.is_empty() && !line.starts_with("// ") {
            lean.extend([line, "\n"]);
        }
        is_comment &= !line.ends_with("*/");
    }
    lean.into()
}

/// Replaced in the page by the path of its files.
const PLACEHOLDER: &str = "ASSETS";
const FILES: &str = "/assets";

/// The page, and a hash of its files. The hash is part of their path, so browsers may cache them forever.
static BUILT: LazyLock<(String, String)> = LazyLock::new(|| {
    let page = include_str!("../../web/index.html");
    let all: String = ALL.iter().map(|asset| &*asset.content).collect();
    let build = format!("{:016x}", rapidhash_v3(format!("{page}{all}").as_bytes()));
    (page.replace(PLACEHOLDER, &format!("{FILES}/{build}")), build)
});

/// The page, and the hash of its files.
pub(crate) fn page() -> (&'static str, &'static str) {
    let (page, build) = &*BUILT;
    (page, build)
}

/// A file by its name, without its folder.
pub(crate) fn asset(name: &str) -> Option<&'static Asset> {
    ALL.iter().find(|asset| asset.path.rsplit('/').next() == Some(name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// All views and the licence, over a slow connection.
    const BYTES_MAX: usize = 160_000;

    fn our_scripts() -> impl Iterator<Item = &'static Asset> {
        ALL.iter().filter(|asset| asset.kind == JS && !asset.path.starts_with("vendor/"))
    }

    #[test]
    fn scripts_lose_comments_only() {
        let whole =
            "// why\n/** What.\n * It is. */\nlet a = 2\n  * 3; // so\n\n/** It. */\n  a();\n";
        assert_eq!(lean(JS, whole), "let a = 2\n* 3; // so\na();\n");
        assert_eq!(lean(CSS, whole), whole);
        for asset in our_scripts() {
            let code = &asset.content;
            assert!(!code.contains("/**"), "{}", asset.path);
            // A multi-line literal would lose its indentation.
            let is_whole =
                |line: &str| line.matches('`').count().is_multiple_of(2) || line.contains("\"`\"");
            assert!(code.lines().all(is_whole), "{}", asset.path);
        }
    }

    #[test]
    fn the_page_is_small() {
        let size = ALL.iter().map(|asset| asset.content.len()).sum::<usize>() + page().0.len();
        assert!(size <= BYTES_MAX, "{size} bytes");
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let mut there = Vec::new();
        for folder in ["", "vendor/"] {
            for file in fs::read_dir(web.join(folder)).unwrap().map(Result::unwrap) {
                let name = file.file_name().into_string().unwrap();
                if file.file_type().unwrap().is_file() && name != "index.html" {
                    there.push(format!("{folder}{name}"));
                }
            }
        }
        there.sort_unstable_by_key(|path| path.to_lowercase());
        let mut served: Vec<_> = ALL.iter().map(|asset| asset.path.to_owned()).collect();
        served.sort_unstable_by_key(|path| path.to_lowercase());
        assert_eq!(served, there);
    }

    #[test]
    fn scripts_write_no_markup_and_nothing_is_inline() {
        for asset in our_scripts() {
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!asset.content.contains(word), "{}: {word}", asset.path);
            }
        }
        let (page, _) = page();
        assert!(
            !page.contains("<style") && !page.contains("<script>") && !page.contains(" style=")
        );
        assert!(!page.contains("://"), "the page names another site");
    }
}
