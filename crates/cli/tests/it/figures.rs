//! Figures on other pages agree with the measured ones in `docs/benchmarks.md`, up to rounding, and that page with the
//! results of the benchmarks, which are measured by `./dev bench all`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::programs::root;
use crate::support::Folder;

/// Where a figure is: the text before it, and how many cells of that table row come first.
type Location = (&'static str, usize);

/// A page, where it quotes a figure, and where the benchmarks have the measured one.
const QUOTES: &[(&str, Location, Location)] = &[
    ("README.md", ("of an app with a database: ", 0), ("| 3 × the load, through tidegate | ", 2)),
    ("README.md", ("responses/s with tidegate, ", 0), ("| 3 × the load, directly | ", 2)),
    ("README.md", ("HTTP is at ", 0), ("| HTTP `/v1/check` | ", 2)),
    ("README.md", ("A leased check through an `Engine` takes ", 0), ("| leased | ", 1)),
    ("README.md", ("**Fast.** ", 0), ("Where the time goes: a check of ", 0)),
    ("README.md", ("one hot key, M/s | ", 0), ("| hot key, 1 thread | ", 0)),
    ("README.md", ("one hot key, M/s | ", 2), ("| one hot key, 1 thread | ", 6)),
    ("README.md", ("one hot key, M/s | ", 3), ("| one hot key, 1 thread | ", 4)),
    ("README.md", ("one hot key, M/s | ", 5), ("| hot key, 1 thread | ", 2)),
    ("README.md", ("the same, 2 threads | ", 0), ("| hot key, 2 threads | ", 0)),
    ("README.md", ("the same, 2 threads | ", 2), ("| one hot key, 2 threads | ", 6)),
    ("README.md", ("the same, 2 threads | ", 3), ("| one hot key, 2 threads | ", 4)),
    ("README.md", ("the same, 2 threads | ", 5), ("| hot key, 2 threads | ", 2)),
    ("README.md", ("bytes per key at 1 M keys | ", 0), ("| bytes per key at 1 M keys | ", 0)),
    ("README.md", ("bytes per key at 1 M keys | ", 2), ("| bytes per key at 1 M keys | ", 5)),
    ("README.md", ("bytes per key at 1 M keys | ", 3), ("| bytes per key at 1 M keys | ", 3)),
    ("README.md", ("HTTP checks/s, one core | ", 0), ("| HTTP `/v1/check` | ", 0)),
    ("README.md", ("HTTP checks/s, one core | ", 3), ("| HTTP `/v1/check` | ", 3)),
    ("README.md", ("gRPC checks/s, one core | ", 0), ("`ShouldRateLimit`, 4 × 64 in flight | ", 0)),
    ("README.md", ("gRPC checks/s, one core | ", 3), ("`ShouldRateLimit`, 4 × 64 in flight | ", 3)),
    (
        "README.md",
        ("Redis protocol checks/s, pipeline 16 | ", 0),
        ("`CL.THROTTLE`, pipeline 16 | ", 0),
    ),
    (
        "README.md",
        ("Redis protocol checks/s, pipeline 16 | ", 3),
        ("`CL.THROTTLE`, pipeline 16 | ", 3),
    ),
    ("README.md", ("1 M keys, MB | ", 0), ("At rest it takes ", 0)),
    ("README.md", ("tidegate through Redis reaches ", 0), ("| tidegate, 256 tasks | ", 0)),
    ("docs/guide.md", ("exact, per process | ", 0), ("Where the time goes: a check of ", 0)),
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
    let mut problems = Vec::new();
    for &(page, quoted, measured) in QUOTES {
        let problem = problem(figure(&read(page), quoted), figure(&benchmarks, measured));
        problems.extend(problem.map(|it| format!("{page}: {quoted:?} ({measured:?}): {it}")));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
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

/// Runs the script that makes the page, in a checkout.
fn page(root: &Path, command: &str) -> Output {
    let mut python = Command::new("python3");
    python.arg("-B").arg(root.join("bench/page.py")).arg(command).env_remove("QUICK");
    python.output().unwrap()
}

#[test]
fn the_docs_of_benchmarks_are_made_from_their_results() {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        assert!(page(&root(), "write").status.success());
    }
    let output = page(&root(), "check");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A checkout with the scripts and results of this one, and this text instead of its page.
fn copy_with(text: &str) -> (Folder, PathBuf) {
    let folder = Folder::new();
    let copy = PathBuf::from(folder.path("copy"));
    fs::create_dir_all(copy.join("bench")).unwrap();
    for file in fs::read_dir(root().join("bench")).unwrap().map(|file| file.unwrap().path()) {
        if file.is_file() {
            fs::copy(&file, copy.join("bench").join(file.file_name().unwrap())).unwrap();
        }
    }
    fs::write(copy.join("bench/benchmarks.md"), text).unwrap();
    (folder, copy)
}

#[test]
fn a_figure_that_was_typed_by_hand_is_noticed() {
    let (_folder, copy) = copy_with("<!-- table core/governor -->\n");
    assert!(page(&copy, "write").status.success() && page(&copy, "check").status.success());
    let made = copy.join("docs/benchmarks.md");
    let text = fs::read_to_string(&made).unwrap();
    fs::write(&made, text.replacen("| hot key, 1 thread | ", "| hot key, 1 thread | 9", 1))
        .unwrap();
    let output = page(&copy, "check");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("docs/benchmarks.md is stale"), "{error}");
}

#[test]
fn a_figure_that_was_not_measured_makes_no_page() {
    for missing in ["core/governor: hot key, 9 threads: ratio", "version: a program of nobody"] {
        let (_folder, copy) = copy_with(&format!("It takes {{{missing}}} ns.\n"));
        for command in ["write", "check"] {
            let output = page(&copy, command);
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && error.contains(missing), "{command}: {error}");
        }
        assert!(!copy.join("docs/benchmarks.md").exists());
    }
}

#[test]
fn the_examples_of_the_scripts_that_make_the_page_hold() {
    let files = fs::read_dir(root().join("bench")).unwrap().map(|file| file.unwrap().path());
    let scripts: Vec<_> = files.filter(|it| it.extension().is_some_and(|it| it == "py")).collect();
    assert!(scripts.len() > 5, "{scripts:?}");
    for script in scripts {
        let mut python = Command::new("python3");
        let output = python.args(["-B", "-m", "doctest"]).arg(script);
        let output = output.current_dir(root().join("bench")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
