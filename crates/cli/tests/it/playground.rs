//! The playground in a real browser.

use crate::programs::node;
use crate::support::{Server, run};

#[test]
fn the_playground_does_in_a_browser_what_it_should() {
    let server = Server::start();
    let said = node(&["playground.mjs", "browser.mjs"], &[&server.url()]);
    let (commands, claims): (Vec<_>, Vec<_>) = said.lines().partition(|it| it.starts_with("$ "));
    let expected = [
        "the golden numbers are there",
        "sliders move by keyboard, and the numbers follow",
        "numbers are typed, and what is out of bounds is told",
        "an address brings a setting back",
        "a busy server is asked again",
        "every experiment is drawn, told and tabulated",
        "controllers are chosen",
        "a log is pasted, and whom a policy refuses is seen",
        "nothing is wider than a phone",
    ];
    assert_eq!(claims, expected);
    // What the page says to type can be typed.
    assert_eq!(commands.len(), 6, "{commands:?}");
    for command in commands {
        let words: Vec<_> = command.strip_prefix("$ tidegate ").unwrap().split(' ').collect();
        let said = run(&words);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{command}");
    }
}
