//! Figures on other pages agree with the measured ones in `docs/benchmarks.md`, up to rounding.

use std::fs;

use crate::programs::root;

/// Where a figure is: the text before it, and how many cells of that table row come first.
type Location = (&'static str, usize);

/// A page, where it quotes a figure, and where the benchmarks have the measured one.
const QUOTES: &[(&str, Location, Location)] = &[
    ("README.md", ("**Fast.** ", 0), ("of which a check of ", 0)),
    ("README.md", ("one hot key, M/s | ", 0), ("| hot key | 1 | ", 0)),
    ("README.md", ("one hot key, M/s | ", 5), ("| hot key | 1 | ", 2)),
    ("README.md", ("the same, 2 threads | ", 0), ("| hot key | 2 | ", 0)),
    ("README.md", ("the same, 2 threads | ", 5), ("| hot key | 2 | ", 2)),
    ("README.md", ("bytes per key at 1 M keys | ", 0), ("token bucket, fixed window | ", 0)),
    ("README.md", ("HTTP checks/s, one core | ", 0), ("| HTTP `/v1/check` | ", 0)),
    ("README.md", ("HTTP checks/s, one core | ", 3), ("| HTTP `/v1/check` | ", 2)),
    ("README.md", ("gRPC checks/s, one core | ", 0), ("`ShouldRateLimit`, 4 × 64 in flight | ", 0)),
    ("README.md", ("gRPC checks/s, one core | ", 3), ("`ShouldRateLimit`, 4 × 64 in flight | ", 2)),
    ("README.md", ("Redis protocol checks/s, pipeline 16 | ", 0), ("| … pipeline 16 | ", 0)),
    ("README.md", ("Redis protocol checks/s, pipeline 16 | ", 3), ("| … pipeline 16 | ", 2)),
    ("README.md", ("1 M keys, MB | ", 0), ("At rest it takes ", 0)),
    ("README.md", ("tidegate through Redis reaches ", 0), ("| tidegate, 256 tasks | ", 0)),
    ("docs/guide.md", ("exact, per process | ", 0), ("of which a check of ", 0)),
    ("docs/guide.md", ("one per app: ", 0), ("At rest it takes ", 0)),
    ("docs/rollout.md", ("A process of tidegate takes ", 0), ("At rest it takes ", 0)),
    ("docs/rollout.md", ("MB at rest, ", 0), ("with a million keys ", 0)),
    ("docs/rollout.md", ("One core answers ", 0), ("| HTTP `/v1/check` | ", 0)),
    (
        "docs/rollout.md",
        ("checks a second over HTTP, ", 0),
        ("`ShouldRateLimit`, 4 × 64 in flight | ", 0),
    ),
    ("docs/engines.md", ("| one check alone, p50 | ", 0), ("| Redis | ", 2)),
    ("docs/engines.md", ("| one check alone, p50 | ", 1), ("| PostgreSQL, `full` | ", 2)),
    ("docs/engines.md", ("| one check alone, p50 | ", 2), ("| quorum of 3 Redis | ", 2)),
    ("docs/engines.md", ("| one check alone, p50 | ", 3), ("| memcached | ", 2)),
    ("docs/quorum.md", ("for one check alone, p50 and p99: ", 0), ("| quorum of 3 Redis | ", 2)),
];

/// How far a rounded figure may be from the measured one.
const ROUNDED: f64 = 0.15;

/// The number at a location in a text: `about 100,000` is 100000, and `**2.29×**` is 2.29.
fn figure(text: &str, (before, cells): (&str, usize)) -> Option<f64> {
    let rest = text.split_once(before)?.1.lines().next()?;
    let rest = rest.split(" | ").nth(cells)?.trim_start_matches("about ").trim_start_matches("**");
    let end = rest.find(|c: char| !c.is_ascii_digit() && !",.".contains(c)).unwrap_or(rest.len());
    rest[..end].replace(',', "").trim_end_matches('.').parse().ok()
}

fn problem(quoted: Option<f64>, measured: Option<f64>) -> Option<String> {
    let (Some(quoted), Some(measured)) = (quoted, measured) else {
        return Some(format!("a figure is missing: {quoted:?}, measured {measured:?}"));
    };
    let far = (quoted - measured).abs() > measured * ROUNDED;
    far.then(|| format!("the page says {quoted}, and {measured} was measured"))
}

#[test]
fn pages_quote_the_measured_figures() {
    let read = |page: &str| fs::read_to_string(root().join(page)).unwrap();
    let benchmarks = read("docs/benchmarks.md");
    for &(page, quoted, measured) in QUOTES {
        let output = problem(figure(&read(page), quoted), figure(&benchmarks, measured));
        assert_eq!(output, None, "{page}: {quoted:?} (benchmarks.md: {measured:?})");
    }
}

#[test]
fn a_wrong_or_missing_figure_is_noticed() {
    assert_eq!(figure("It takes about 13.0 MB, or so", ("takes ", 0)), Some(13.0));
    assert_eq!(figure("| 101,400 | 0.87 |", ("| ", 0)), Some(101_400.0));
    assert_eq!(figure("It takes some MB", ("takes ", 0)), None);
    assert_eq!(figure("| hot | 68.7 | 30.0 | **2.29×** |", ("| hot | ", 2)), Some(2.29));
    assert_eq!(figure("| hot | 68.7 |\n| cold | 1 | 2 |", ("| hot | ", 2)), None);
    assert_eq!(problem(Some(100_000.0), Some(101_400.0)), None);
    assert!(problem(Some(10.8), Some(13.0)).is_some());
    assert!(problem(None, Some(13.0)).is_some() && problem(Some(13.0), None).is_some());
}
