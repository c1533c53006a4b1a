//! Figures on other pages agree with the measured ones in `docs/benchmarks.md`, up to rounding.

use std::fs;

use crate::programs::root;

/// A quoted figure.
struct Quote {
    page: &'static str,
    /// The text before the figure on that page.
    before: &'static str,
    /// The text before the measured figure in the benchmarks.
    measured: &'static str,
    /// How many further cells of the table row stand before the measured figure.
    cells: usize,
}

const fn quote(
    page: &'static str,
    before: &'static str,
    measured: &'static str,
    cells: usize,
) -> Quote {
    Quote { page, before, measured, cells }
}

const QUOTES: &[Quote] = &[
    quote("README.md", "**Fast.** ", "of which a check of ", 0),
    quote("README.md", "one hot key, M/s | ", "| hot key | 1 | ", 0),
    quote("README.md", "30.0 (**", "| hot key | 1 | ", 2),
    quote("README.md", "the same, 2 threads | ", "| hot key | 2 | ", 0),
    quote("README.md", "13.7 (**", "| hot key | 2 | ", 2),
    quote("README.md", "bytes per key at 1 M keys | ", "token bucket, fixed window | ", 0),
    quote("README.md", "HTTP checks/s, one core | ", "| HTTP `/v1/check` | ", 0),
    quote("README.md", "– | 52,000 | **", "| HTTP `/v1/check` | ", 2),
    quote("README.md", "gRPC checks/s, one core | ", "`ShouldRateLimit`, 4 × 64 in flight | ", 0),
    quote("README.md", "– | 73,000 | **", "`ShouldRateLimit`, 4 × 64 in flight | ", 2),
    quote("README.md", "pipeline 16 | ", "| … pipeline 16 | ", 0),
    quote("README.md", "1,455,600 | – | – | **", "| … pipeline 16 | ", 2),
    quote("README.md", "1 M keys, MB | ", "At rest it takes ", 0),
    quote("README.md", "tidegate through Redis reaches ", "| tidegate, 256 tasks | ", 0),
    quote("docs/guide.md", "exact, per process | ", "of which a check of ", 0),
    quote("docs/guide.md", "one per app: ", "At rest it takes ", 0),
    quote("docs/rollout.md", "A process of tidegate takes ", "At rest it takes ", 0),
    quote("docs/rollout.md", "MB at rest, ", "with a million keys ", 0),
    quote("docs/rollout.md", "One core answers ", "| HTTP `/v1/check` | ", 0),
    quote(
        "docs/rollout.md",
        "checks a second over HTTP, ",
        "`ShouldRateLimit`, 4 × 64 in flight | ",
        0,
    ),
];

/// How far a rounded figure may be from the measured one.
const ROUNDED: f64 = 0.15;

/// The number that follows `before` in `text`: `about 100,000` is 100000.
fn figure(text: &str, before: &str) -> Option<f64> {
    figure_in_cell(text, before, 0)
}

/// The number that opens the table cell `cells` cells after `before`.
fn figure_in_cell(text: &str, before: &str, cells: usize) -> Option<f64> {
    let rest = text.split_once(before)?.1.lines().next()?;
    let rest = rest.splitn(cells + 1, " | ").nth(cells)?.trim_start_matches("about ");
    let end = rest.find(|c: char| !c.is_ascii_digit() && !",.".contains(c))?;
    rest[..end].replace(',', "").trim_end_matches('.').parse().ok()
}

fn trouble(quoted: Option<f64>, measured: Option<f64>) -> Option<String> {
    let (Some(quoted), Some(measured)) = (quoted, measured) else {
        return Some(format!("a figure is missing: {quoted:?}, measured {measured:?}"));
    };
    let far = (quoted - measured).abs() > measured * ROUNDED;
    far.then(|| format!("the page says {quoted}, and {measured} was measured"))
}

#[test]
fn pages_quote_what_was_measured() {
    let read = |page: &str| fs::read_to_string(root().join(page)).unwrap();
    let benchmarks = read("docs/benchmarks.md");
    for Quote { page, before, measured, cells } in QUOTES {
        let found = figure_in_cell(&benchmarks, measured, *cells);
        let said = trouble(figure(&read(page), before), found);
        assert_eq!(said, None, "{page}: {before}… (benchmarks.md: {measured}…)");
    }
}

#[test]
fn a_figure_that_is_far_off_or_gone_is_noticed() {
    assert_eq!(figure("It takes about 13.0 MB, or so", "takes "), Some(13.0));
    assert_eq!(figure("| 101,400 | 0.87 |", "| "), Some(101_400.0));
    assert_eq!(figure("It takes some MB", "takes "), None);
    assert_eq!(figure_in_cell("| hot | 68.7 | 30.0 | 2.29 (2.28) |", "| hot | ", 2), Some(2.29));
    assert_eq!(figure_in_cell("| hot | 68.7 |\n| cold | 1 |", "| hot | ", 2), None);
    assert_eq!(trouble(Some(100_000.0), Some(101_400.0)), None);
    assert!(trouble(Some(10.8), Some(13.0)).is_some());
    assert!(trouble(None, Some(13.0)).is_some() && trouble(Some(13.0), None).is_some());
}
