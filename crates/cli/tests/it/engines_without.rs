//! A binary that was built without an engine says how to get it.

use crate::support::run;

#[test]
fn a_url_of_an_engine_that_was_not_built_says_how_to_build_it() {
    for args in [["doctor", "--store"], ["vectors", "--store"]] {
        let more = ["dynamodb://tidegate", "testdata/vectors/gcra.json"];
        let more = if args[0] == "doctor" { &more[..1] } else { &more[..] };
        let output = run(&[&args[..], more].concat());
        assert_eq!(output.code, Some(1), "{}", output.stdout);
        let text = output.stdout + &output.stderr;
        assert!(text.contains("cargo install --path crates/cli --features dynamodb"), "{text}");
    }
}
