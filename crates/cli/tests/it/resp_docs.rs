//! Runs the examples of the guide: each command, and the reply below it.

use std::process::Command;

use crate::resp_support::start;

const GUIDE: &str = include_str!("../../../../docs/redis-protocol.md");

#[test]
fn every_example_of_the_guide_works() {
    let server = start(&[]);
    let port = server.resp_port();
    let mut shown = 0;
    for block in GUIDE.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for example in block.split("$ ").skip(1) {
            let (line, expected) = example.split_once('\n').unwrap();
            let words = line.strip_prefix("redis-cli -p 6380 ").unwrap_or_else(|| panic!("{line}"));
            let shell = format!("redis-cli -p {port} {words}");
            let output =
                Command::new("sh").args(["-c", &shell]).env("FAKETTY", "1").output().unwrap();
            let output = String::from_utf8(output.stdout).unwrap();
            assert_eq!(output.trim_end(), expected.trim_end(), "{line}");
            shown += 1;
        }
    }
    assert!(shown >= 10, "only {shown} examples");
}
