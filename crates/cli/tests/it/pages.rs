//! Every command of every page, as a reader would run it.
//!
//! A page is read from its beginning to its end, in a folder of its own, with a Redis on port 6379 and an app on port
//! 3000 where its commands name them. What stands behind the fence says what becomes of a block:
//!
//! | block | |
//! |---|---|
//! | `sh` | is run, and has to succeed; a `text` or `json` block right below is what it prints |
//! | `sh server` | each line is a server, started in place of those of the last such block |
//! | `sh skip=REASON` | is not run, for one of [`REASONS`] |
//! | `sh test=NAME` | is run by the test of that name, which knows better how |
//! | `yaml file=NAME` | is that file, from here on |
//! | `text like` | what is printed, but for the digits of its numbers |
//! | `json` | what is printed has at least these fields, of these kinds |

mod session;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::markdown::{Block, Page, pages};
use crate::openapi::same_shape;
use crate::programs::root;
use crate::support::{Folder, run_with};
use session::Session;

/// Why a block is not run.
const REASONS: &[(&str, &str)] = &[
    ("build", "builds this checkout, as `./dev test` does before"),
    ("benchmark", "takes minutes, and both cores"),
    ("docker", "needs Docker"),
    ("helm", "needs Helm"),
    ("kubernetes", "needs a cluster"),
    ("machine", "names machines and files of the reader"),
    ("program", "needs a program that the tests do not install"),
    ("registry", "installs from a package registry"),
    ("root", "changes the machine"),
];

/// Pages at once: enough to keep two cores busy while servers start.
const READERS: usize = 4;

fn is_shell(block: &Block) -> bool {
    matches!(block.language(), "sh" | "bash" | "shell" | "zsh" | "console")
}

/// Reads a page to its end, or to the first thing that is wrong.
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
            let told = blocks.get(index + 1).filter(|next| next.adjacent);
            run(&mut session, block, told).map_err(|why| place(block, why))?;
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
        Some(("test", name)) if root().join(format!("crates/cli/tests/it/{name}.rs")).exists() => {
            Ok(Fate::Excused)
        }
        _ => Err(format!(
            "`{}` is no way to run it; tests/it/pages.rs has them",
            block.info.join(" ")
        )),
    }
}

fn run(session: &mut Session, block: &Block, told: Option<&Block>) -> Result<(), String> {
    if block.says("server") {
        session.serve(&block.text);
        return Ok(());
    }
    let ran = session.run(&block.text);
    let said = session.as_written(&ran.stdout);
    let complaint = session.as_written(&ran.stderr);
    if !ran.status.success() {
        return Err(format!("{}\n{}{said}{complaint}", ran.status, block.text));
    }
    match told.filter(|told| ["text", "json"].contains(&told.language())) {
        Some(told) if told.language() == "json" => same_values(&told.text, &said),
        Some(told) if told.says("like") => same_text(&numberless(&told.text), &numberless(&said)),
        Some(told) => same_text(&told.text, &said),
        None => Ok(()),
    }
}

fn same_text(told: &str, said: &str) -> Result<(), String> {
    let same = told.trim_end() == said.trim_end();
    if same { Ok(()) } else { Err(format!("the page says\n{told}\nand it printed\n{said}")) }
}

/// Digits as one `0`, and spaces, which align them, as one. A date in a header has names for its day and month, which
/// are no less its numbers.
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

fn same_values(told: &str, said: &str) -> Result<(), String> {
    let (told, said) = (values(told)?, values(said)?);
    if told.len() != said.len() {
        return Err(format!("the page has {} values, and it printed {said:?}", told.len()));
    }
    for (told, said) in told.iter().zip(&said) {
        same_shape(told, said, "the answer");
    }
    Ok(())
}

/// The JSON values of a text, one after the other.
fn values(text: &str) -> Result<Vec<Value>, String> {
    let values = serde_json::Deserializer::from_str(text).into_iter();
    values.collect::<Result<_, _>>().map_err(|error| format!("{error}: {text}"))
}

/// A panic of what a page is read with is the page's trouble.
fn read_safely(page: &Page) -> Result<usize, String> {
    std::panic::catch_unwind(|| read(page)).unwrap_or_else(|panic| {
        let why = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "panicked".to_owned());
        Err(format!("{}: {why}", page.name))
    })
}

#[test]
fn every_command_works_as_its_page_says() {
    let (pages, next) = (pages(), AtomicUsize::new(0));
    let (troubles, count) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match read_safely(page) {
                        Ok(ran) => _ = count.fetch_add(ran, Ordering::Relaxed),
                        Err(why) => troubles.lock().unwrap().push(why),
                    }
                }
            });
        }
    });
    let troubles = troubles.into_inner().unwrap();
    assert!(troubles.is_empty(), "{}", troubles.join("\n\n"));
    let count = count.into_inner();
    assert!(count >= 80, "only {count} blocks were run");
}

#[test]
fn a_block_that_is_wrong_or_left_out_is_noticed() {
    let trouble = |text: &str| {
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
        assert_eq!(trouble(good), None, "{good}");
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
        assert!(trouble(bad).is_some(), "{bad}");
    }
}

/// Is it one of ours? Blocks of others, like Helm's values, say so behind the fence: `yaml helm`.
fn is_configuration(block: &Block) -> bool {
    let first = block.text.lines().find(|line| !line.starts_with('#')).unwrap_or("");
    let ours = ["admin", "envoy", "listen", "mode", "overrides", "policies", "routes", "store"];
    let plain = block.info.len() == 1 || block.mark("file").is_some();
    block.language() == "yaml" && plain && ours.contains(&first.split(':').next().unwrap())
}

#[test]
fn every_configuration_of_the_pages_is_right() {
    let (folder, mut count) = (Folder::new(), 0);
    for page in pages() {
        let blocks = page.blocks();
        for block in blocks.iter().filter(|block| is_configuration(block)) {
            let file = folder.write("block.yaml", &block.text);
            let said = run_with(&["validate", &file], &[("REDIS_PASSWORD", "secret")]);
            let place = format!("{}:{}", page.name, block.line);
            assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{place}");
            count += 1;
        }
    }
    assert!(count >= 12, "only {count}");
}
