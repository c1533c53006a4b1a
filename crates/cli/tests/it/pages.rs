//! Runs every command of every page as a reader would.
//!
//! Each page runs from start to end in its own folder, with a Redis on port 6379 and an app on port 3000 if its commands
//! name them. The words behind a fence say how a block is handled:
//!
//! | block | |
//! |---|---|
//! | `sh` | is run, and must succeed; a `text` or `json` block right below is its output |
//! | `sh server` | each line is a server, which replaces those of the last such block |
//! | `sh skip=REASON` | is not run, for one of [`REASONS`] |
//! | `sh test=NAME` | is run by the test of that name instead |
//! | `yaml file=NAME` | is written to that file |
//! | `text like` | the output, except for digits |
//! | `json` | the output has at least these fields, of these types |

mod session;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::markdown::{Block, Page, pages};
use crate::openapi::same_shape;
use crate::support::{Folder, run_with};
use session::Session;

/// Why a block is not run.
const REASONS: &[(&str, &str)] = &[
    ("build", "builds this checkout, as `./dev test` does before"),
    ("benchmark", "takes minutes, and both cores"),
    ("docker", "needs Docker"),
    ("helm", "needs Helm"),
    ("kubernetes", "needs a cluster"),
    ("machine", "names the reader's machines and files"),
    ("program", "needs a program that the tests do not install"),
    ("registry", "installs from a package registry"),
    ("root", "changes the machine"),
];

/// Where the tests are that a block can name.
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it");

/// Pages at once: enough to keep two cores busy while servers start.
const READERS: usize = 4;

fn is_shell(block: &Block) -> bool {
    matches!(block.language(), "sh" | "bash" | "shell" | "zsh" | "console")
}

/// Runs a page to its end, or to the first failure.
fn read(page: &Page) -> Result<usize, String> {
    let blocks = page.blocks();
    let place = |block: &Block, why| format!("{}:{}: {why}", page.name, block.line);
    let mut to_run = Vec::new();
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| is_shell(block)) {
        if fate(block).map_err(|why| place(block, why))? == Fate::Run {
            to_run.push(index);
        }
    }
    if to_run.is_empty() {
        return Ok(0);
    }
    let used =
        |(index, block): &(usize, &Block)| to_run.contains(index) || block.mark("file").is_some();
    let used = blocks.iter().enumerate().filter(used);
    let mut session = Session::new(&used.map(|(_, block)| &*block.text).collect::<String>());
    for (index, block) in blocks.iter().enumerate() {
        if let Some(name) = block.mark("file") {
            session.write(name, &block.text);
        } else if to_run.contains(&index) {
            let shown = blocks.get(index + 1).filter(|next| next.adjacent);
            run(&mut session, block, shown).map_err(|why| place(block, why))?;
        }
    }
    Ok(to_run.len())
}

#[derive(Debug, PartialEq)]
enum Fate {
    Run,
    Excused,
}

fn fate(block: &Block) -> Result<Fate, String> {
    if block.language() != "sh" {
        return Err(format!("write `sh` for `{}`", block.language()));
    }
    match block.info.get(1).map(|mark| mark.split_once('=').unwrap_or((mark, ""))) {
        None | Some(("server", "")) if block.info.len() <= 2 => Ok(Fate::Run),
        Some(("skip", reason)) if REASONS.iter().any(|(name, _)| *name == reason) => {
            Ok(Fate::Excused)
        }
        Some(("test", name)) if Path::new(TESTS).join(format!("{name}.rs")).exists() => {
            Ok(Fate::Excused)
        }
        _ => Err(format!(
            "`{}` is not a known mark; tests/it/pages.rs lists them",
            block.info.join(" ")
        )),
    }
}

fn run(session: &mut Session, block: &Block, shown: Option<&Block>) -> Result<(), String> {
    if block.says("server") {
        session.serve(&block.text);
        return Ok(());
    }
    let ran = session.run(&block.text);
    let printed = session.as_written(&ran.stdout);
    let errors = session.as_written(&ran.stderr);
    if !ran.status.success() {
        return Err(format!("{}\n{}{printed}{errors}", ran.status, block.text));
    }
    match shown.filter(|shown| ["text", "json"].contains(&shown.language())) {
        Some(shown) if shown.language() == "json" => same_values(&shown.text, &printed),
        Some(shown) if shown.says("like") => {
            same_text(&numberless(&shown.text), &numberless(&printed))
        }
        Some(shown) => same_text(&shown.text, &printed),
        None => Ok(()),
    }
}

fn same_text(shown: &str, printed: &str) -> Result<(), String> {
    let same = shown.trim_end() == printed.trim_end();
    if same { Ok(()) } else { Err(format!("the page says\n{shown}\nand it printed\n{printed}")) }
}

/// Replaces runs of digits by one `0` and runs of spaces by one space. A date in a header also varies in its names of day
/// and month.
fn numberless(text: &str) -> String {
    let dateless = |line| if str::starts_with(line, "date: ") { "date: 0" } else { line };
    let text = text.lines().map(dateless).collect::<Vec<_>>().join("\n");
    let mut like = String::new();
    for c in text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }) {
        if !(matches!(c, '0' | ' ') && like.ends_with(c)) {
            like.push(c);
        }
    }
    like
}

fn same_values(shown: &str, printed: &str) -> Result<(), String> {
    let (shown, printed) = (values(shown)?, values(printed)?);
    if shown.len() != printed.len() {
        return Err(format!("the page has {} values, and it printed {printed:?}", shown.len()));
    }
    for (shown, printed) in shown.iter().zip(&printed) {
        same_shape(shown, printed, "the answer");
    }
    Ok(())
}

/// The JSON values of a text, one after the other.
fn values(text: &str) -> Result<Vec<Value>, String> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    values.collect::<Result<_, _>>().map_err(|error| format!("{error}: {text}"))
}

/// A panic while a page runs is a failure of that page.
fn read_safely(page: &Page) -> Result<usize, String> {
    std::panic::catch_unwind(|| read(page)).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panicked".to_owned());
        Err(format!("{}: {why}", page.name))
    })
}

#[test]
fn every_command_of_the_pages_works() {
    let (pages, next) = (pages(), AtomicUsize::new(0));
    let (failures, count) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match read_safely(page) {
                        Ok(ran) => _ = count.fetch_add(ran, Ordering::Relaxed),
                        Err(why) => failures.lock().unwrap().push(why),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let count = count.into_inner();
    assert!(count >= 80, "only {count} blocks were run");
}

#[test]
fn a_wrong_or_skipped_block_is_noticed() {
    let failure = |text: &str| {
        let page = Page { name: "page.md".to_owned(), text: text.to_owned() };
        read_safely(&page).err()
    };
    for good in [
        "```sh\necho 1\n```\n",
        "```sh\necho 12 a\n```\n\n```text like\n7   a\n```\n",
        "```sh\necho 'date: Mon, 16 Nov'\n```\n\n```text like\ndate: Sun, 1 Feb\n```\n",
        "```yaml file=a.yaml\nb\n```\n```sh\ncat a.yaml\n```\n```text\nb\n```\n",
        "```sh\ntidegate -V\n```\nsome words\n```text\nelse\n```\n",
        "```sh\necho '{\"a\":1,\"b\":2}'\n```\n```json\n{\"a\":7}\n```\n",
        "```sh skip=docker\nfalse\n```\n```sh test=rls_envoy\nfalse\n```\n",
        "```sh server\ntidegate\n```\n```sh\ntidegate check api ann --cost 0\n```\n",
    ] {
        assert_eq!(failure(good), None, "{good}");
    }
    for bad in [
        "```sh\nfalse\n```\n",
        "```sh\nfalse\ntrue\n```\n",
        "```sh\necho 1\n```\n```text\n2\n```\n",
        "```sh\necho 1 a\n```\n```text like\n1 b\n```\n",
        "```sh\necho '{\"a\":1}'\n```\n```json\n{\"a\":\"1\"}\n```\n",
        "```sh\ntidegate check api ann\n```\n",
        "```sh server\ntidegate --nonsense\n```\n",
        "```sh skip\nfalse\n```\n",
        "```sh skip=tired\nfalse\n```\n",
        "```sh test=nothing\nfalse\n```\n",
        "```sh runs\ntrue\n```\n",
        "```bash\ntrue\n```\n",
    ] {
        assert!(failure(bad).is_some(), "{bad}");
    }
}

/// Whether a block is a tidegate configuration. Others, such as Helm's values, are marked: `yaml helm`.
fn is_configuration(block: &Block) -> bool {
    let first = block.text.lines().find(|line| !line.starts_with('#')).unwrap_or("");
    let ours = ["admin", "envoy", "listen", "mode", "overrides", "policies", "routes", "store"];
    let plain = block.info.len() == 1 || block.mark("file").is_some();
    block.language() == "yaml" && plain && ours.contains(&first.split(':').next().unwrap())
}

#[test]
fn every_configuration_of_the_pages_is_valid() {
    let (folder, mut count) = (Folder::new(), 0);
    for page in pages() {
        let blocks = page.blocks();
        for block in blocks.iter().filter(|block| is_configuration(block)) {
            let file = folder.write("block.yaml", &block.text);
            let printed = run_with(&["validate", &file], &[("REDIS_PASSWORD", "secret")]);
            let place = format!("{}:{}", page.name, block.line);
            // A note explains what is right, and the files that pages name are not here.
            let is_fine = |it: &&str| it.starts_with("note: ") || it.contains(" was not read, ");
            let told: Vec<_> = printed.stderr.lines().filter(|it| !is_fine(it)).collect();
            assert!(printed.code == Some(0) && told.is_empty(), "{place}: {told:?}");
            count += 1;
        }
    }
    assert!(count >= 12, "only {count}");
}
