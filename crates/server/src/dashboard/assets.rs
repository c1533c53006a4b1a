//! The files of the page, as they are in the binary.

use std::sync::LazyLock;

use rapidhash::v3::rapidhash_v3;

/// A file of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asset {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) content: &'static [u8],
}

const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! assets {
    ($($kind:ident $path:literal;)*) => {
        /// Every file but the page itself. A new one is a line here.
        pub(super) const ALL: &[Asset] = &[$(Asset {
            path: $path,
            kind: $kind,
            content: include_bytes!(concat!("../../web/", $path)),
        }),*];
    };
}

assets! {
    JS "app.js";
    JS "ask.js";
    JS "charts.js";
    JS "dom.js";
    JS "early.js";
    JS "feed.js";
    JS "health.js";
    SVG "icon.svg";
    JS "live.js";
    JS "playground-controls.js";
    JS "playground-draw.js";
    JS "playground-experiments.js";
    JS "playground-replay.js";
    JS "playground-server.js";
    JS "playground.js";
    JS "plot.js";
    JS "policy.js";
    JS "rules.js";
    CSS "style.css";
}

/// What the page says where its files are.
const PLACEHOLDER: &str = "ASSETS";
/// Under which all files are, behind a name of their build.
const FILES: &str = "/assets";

/// The page, and a name for exactly these files: they may be kept for ever under it, and are others under the next.
static BUILT: LazyLock<(String, String)> = LazyLock::new(|| {
    let page = include_str!("../../web/index.html");
    let all: Vec<u8> = ALL.iter().flat_map(|asset| asset.content).copied().collect();
    let build = format!("{:016x}", rapidhash_v3(&[page.as_bytes(), &all].concat()));
    (page.replace(PLACEHOLDER, &format!("{FILES}/{build}")), build)
});

/// The page, and the name of its build.
pub(crate) fn page() -> (&'static str, &'static str) {
    let (page, build) = &*BUILT;
    (page, build)
}

/// A file by its name.
pub(crate) fn asset(name: &str) -> Option<Asset> {
    ALL.iter().find(|asset| asset.path == name).copied()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// What somebody with a slow line loads, all views included.
    const BYTES_MAX: usize = 110_000;

    #[test]
    fn all_of_it_is_small() {
        let size = ALL.iter().map(|asset| asset.content.len()).sum::<usize>() + page().0.len();
        assert!(size <= BYTES_MAX, "{size} bytes");
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("web");
        let mut there = Vec::new();
        for file in fs::read_dir(web).unwrap().map(Result::unwrap) {
            let name = file.file_name().into_string().unwrap();
            if name != "index.html" {
                there.push(name);
            }
        }
        there.sort_unstable_by_key(|path| path.to_lowercase());
        let mut served: Vec<_> = ALL.iter().map(|asset| asset.path.to_owned()).collect();
        served.sort_unstable_by_key(|path| path.to_lowercase());
        assert_eq!(served, there);
    }

    #[test]
    fn nothing_makes_markup_of_what_it_is_given_and_nothing_is_inline() {
        for asset in ALL.iter().filter(|asset| asset.kind == JS) {
            let code = std::str::from_utf8(asset.content).unwrap();
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!code.contains(word), "{}: {word}", asset.path);
            }
        }
        let (page, _) = page();
        assert!(
            !page.contains("<style") && !page.contains("<script>") && !page.contains(" style=")
        );
        assert!(!page.contains("://"), "the page names another site");
    }
}
