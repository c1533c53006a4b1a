//! Figures that pages quote are those that were measured: `docs/benchmarks.md` has them, and other pages round them.

use std::fs;

use crate::programs::root;

/// A page, what stands there before its figure, and what stands before the measured one.
const QUOTES: &[(&str, &str, &str)] = &[
    ("README.md", "**Fast.** ", "of which a check of "),
    ("docs/guide.md", "exact, per process | ", "of which a check of "),
    ("docs/guide.md", "one per app: ", "At rest it takes "),
    ("docs/rollout.md", "A process of tidegate takes ", "At rest it takes "),
    ("docs/rollout.md", "MB at rest, ", "with a million keys "),
    ("docs/rollout.md", "One core answers ", "| HTTP `/v1/check` | "),
    (
        "docs/rollout.md",
        "checks a second over HTTP, ",
        "gRPC `ShouldRateLimit`, 4 × 64 in flight | ",
    ),
];

/// How far a rounded figure may be from the measured one.
const ROUNDED: f64 = 0.15;

/// The number that follows `before` in `text`: `about 100,000` is 100000.
fn figure(text: &str, before: &str) -> Option<f64> {
    let rest = text.split_once(before)?.1.trim_start_matches("about ");
    let end = rest.find(|c: char| !c.is_ascii_digit() && !",.".contains(c))?;
    rest[..end].replace(',', "").trim_end_matches('.').parse().ok()
}

fn trouble(quoted: Option<f64>, measured: Option<f64>) -> Option<String> {
    let (Some(quoted), Some(measured)) = (quoted, measured) else {
        return Some(format!("a figure is missing: {quoted:?}, measured {measured:?}"));
    };
    let far = (quoted - measured).abs() > measured * ROUNDED;
    far.then(|| format!("{quoted} is told, and {measured} was measured"))
}

#[test]
fn pages_quote_what_was_measured() {
    let read = |page: &str| fs::read_to_string(root().join(page)).unwrap();
    let benchmarks = read("docs/benchmarks.md");
    for (page, before, measured) in QUOTES {
        let said = trouble(figure(&read(page), before), figure(&benchmarks, measured));
        assert_eq!(said, None, "{page}: {before}… (benchmarks.md: {measured}…)");
    }
}

#[test]
fn a_figure_that_is_far_off_or_gone_is_noticed() {
    assert_eq!(figure("It takes about 13.0 MB, or so", "takes "), Some(13.0));
    assert_eq!(figure("| 101,400 | 0.87 |", "| "), Some(101_400.0));
    assert_eq!(figure("It takes some MB", "takes "), None);
    assert_eq!(trouble(Some(100_000.0), Some(101_400.0)), None);
    assert!(trouble(Some(10.8), Some(13.0)).is_some());
    assert!(trouble(None, Some(13.0)).is_some() && trouble(Some(13.0), None).is_some());
}
