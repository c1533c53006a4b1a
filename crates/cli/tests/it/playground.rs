//! The playground in a real browser.

use crate::programs::node;
use crate::support::{Server, run};

#[test]
fn the_playground_works_in_a_browser() {
    let server = Server::start();
    let output = node(&["playground.mjs", "browser.mjs"], &[&server.url()]);
    let (commands, claims): (Vec<_>, Vec<_>) = output.lines().partition(|it| it.starts_with("$ "));
    let expected = [
        "the golden numbers are shown",
        "sliders work by keyboard, and the numbers follow",
        "numbers can be typed, and errors are shown",
        "an address restores its parameters",
        "a busy server is retried",
        "every experiment has a chart, a summary and a table",
        "figures agree with the advice, and red has a reason",
        "a legend shows the point under the pointer",
        "controllers can be chosen",
        "a pasted log shows which requests a policy denies",
        "every experiment fits a phone",
    ];
    assert_eq!(claims, expected);
    // Every command that the page shows works.
    assert_eq!(commands.len(), 6, "{commands:?}");
    for command in commands {
        let words: Vec<_> = command.strip_prefix("$ tidegate ").unwrap().split(' ').collect();
        let output = run(&words);
        assert_eq!((output.code, output.stderr.as_str()), (Some(0), ""), "{command}");
    }
}
