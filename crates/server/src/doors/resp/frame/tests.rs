use proptest::prelude::*;

use super::*;
use tidegate_testkit::fuzz::{self, Grammar};

/// Parses all complete commands, and the error of the rest.
fn read(mut bytes: &[u8]) -> (Vec<Vec<String>>, Option<String>) {
    let mut spans = ArgumentSpans::new();
    let mut commands = Vec::new();
    loop {
        if !spans.has_room() {
            spans.clear();
        }
        match next(bytes, &mut spans) {
            Ok(None) => return (commands, None),
            Err(broken) => return (commands, Some(broken.0)),
            Ok(Some(len)) => {
                let arguments = spans.finish_command();
                let command = Command::new(bytes, &spans, arguments);
                let text = |index| String::from_utf8_lossy(command.argument(index)).into_owned();
                commands.push((0..command.len()).map(text).collect());
                bytes = &bytes[len..];
            }
        }
    }
}

#[test]
fn commands_are_parsed_in_place() {
    for (bytes, expected) in [
        ("*1\r\n$4\r\nPING\r\n", &[&["PING"][..]][..]),
        ("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", &[&["ECHO", ""]]),
        ("*1\r\n$4\r\n\r\n\r\n\r\n", &[&["\r\n\r\n"]]),
        ("*0\r\n*-1\r\n*1\r\n$1\r\nx\r\n", &[&[], &[], &["x"]]),
        ("PING\r\nECHO  a\n", &[&["PING"], &["ECHO", "a"]]),
        ("  ECHO 'a b' \"\"\t\"it's\"\r\n\r\n", &[&["ECHO", "a b", "", "it's"], &[]]),
        ("*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n*1\r\n$", &[&["ECHO", "hi"], &["PING"]]),
    ] {
        assert_eq!(
            read(bytes.as_bytes()),
            (
                expected
                    .iter()
                    .map(|command| { command.iter().map(|&word| word.to_owned()).collect() })
                    .collect(),
                None
            ),
            "{bytes:?}"
        );
    }
}

#[test]
fn an_incomplete_command_is_not_parsed() {
    for bytes in ["*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n", "ECHO hi\r\n"] {
        for len in 0..bytes.len() {
            assert_eq!(read(&bytes.as_bytes()[..len]), (vec![], None), "{len} of {bytes:?}");
        }
    }
}

#[test]
fn invalid_commands_are_explained() {
    let long = "x".repeat(FRAME_BYTES_MAX);
    for (bytes, expected) in [
        ("*65\r\n", "invalid multibulk length: expected at most 64"),
        ("*-2\r\n", "invalid multibulk length: expected at most 64"),
        ("*9223372036854775807\r\n", "invalid multibulk length: expected at most 64"),
        ("*x\r\n", "invalid multibulk length: `x` is not a number"),
        ("*\r\n", "invalid multibulk length: `` is not a number"),
        ("*1\rx", "invalid multibulk length: expected a number and CRLF"),
        (
            "*1\n$4\nPING\n*1\n$4\nPING\n*1\n$4\nPING\n",
            "invalid multibulk length: expected a number and CRLF",
        ),
        (
            "*11111111111111111111111111111111111",
            "invalid multibulk length: expected a number and CRLF",
        ),
        ("*1\r\n*1\r\n", "expected '$', got '*'"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n\r\n", "expected '$', got '\\r'"),
        ("*1\r\n$-1\r\n", "invalid bulk length: expected 0 or more"),
        ("*1\r\n$nan\r\n", "invalid bulk length: `nan` is not a number"),
        ("*1\r\n$1e400\r\n", "invalid bulk length: `1e400` is not a number"),
        ("*1\r\n$65537\r\n", "a command is larger than 65536 bytes"),
        ("*2\r\n$1\r\nx\r\n$65530\r\n", "a command is larger than 65536 bytes"),
        ("*1\r\n$1\r\nxyz\r\n", "expected CRLF after a bulk of 1 bytes"),
        ("ECHO \"a\r\n", "unbalanced quotes in request, or an escape: send an array"),
        ("ECHO \"a\\n\"\r\n", "unbalanced quotes in request, or an escape: send an array"),
        ("ECHO 'a'b\r\n", "unbalanced quotes in request"),
        ("POST / HTTP/1.1\r\n", "this is not an HTTP server"),
        ("host: x\r\n", "this is not an HTTP server"),
        (long.as_str(), "a command is larger than 65536 bytes"),
    ] {
        assert_eq!(read(bytes.as_bytes()), (vec![], Some(expected.to_owned())), "{bytes:.40?}");
    }
}

#[test]
fn a_command_of_the_largest_size_is_read() {
    let key = "x".repeat(FRAME_BYTES_MAX - "*1\r\n$65000\r\n\r\n".len());
    let whole = format!("*1\r\n${}\r\n{key}\r\n", key.len());
    assert_eq!(whole.len(), FRAME_BYTES_MAX);
    assert_eq!(read(whole.as_bytes()), (vec![vec![key]], None));
    let many = format!("*64\r\n{}", "$1\r\nx\r\n".repeat(64));
    assert_eq!(read(many.as_bytes()).0[0].len(), 64);
    let words = "x ".repeat(65) + "\r\n";
    assert_eq!(read(words.as_bytes()).1.as_deref(), Some("more than 64 arguments"));
}

/// Parts of the protocol, and lengths that are too large, negative or not numbers.
const GRAMMAR: Grammar = Grammar {
    whole: &[
        "*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n*1\r\n$4\r\nPING\r\n",
        "ECHO 'a b' \"c\\x41\"\r\nPING\r\n",
    ],
    words: &[
        "*1\r\n",
        "*2\r\n",
        "*3\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*65\r\n",
        "*1000000000\r\n",
        "$4\r\nPING\r\n",
        "$0\r\n\r\n",
        "$3\r\nkey\r\n",
        "$-1\r\n",
        "$65535\r\n",
        "$99999999999999999999\r\n",
        "$",
        "*",
        "\r\n",
        "\n",
        "\r",
        " ",
        "PING\r\n",
        "ECHO 'a b' \"c\"\r\n",
        "\"",
        "'",
        "\\x",
        "1",
        "-",
        ":1\r\n",
        "+OK\r\n",
        "\0",
    ],
};

/// Parses input that arrives in two pieces.
fn read_in_pieces(bytes: &[u8], at: usize) -> (Vec<Vec<String>>, Option<String>) {
    let (mut commands, broken) = read(&bytes[..at]);
    if broken.is_some() {
        return (commands, broken);
    }
    let mut spans = ArgumentSpans::new();
    let mut taken = 0;
    for _ in &commands {
        taken += next(&bytes[taken..], &mut spans).unwrap().unwrap();
    }
    let (more, broken) = read(&bytes[taken..]);
    commands.extend(more);
    (commands, broken)
}

proptest! {
    #![proptest_config(fuzz::config(10_000))]

    #[test]
    fn any_input_parses_the_same_in_one_piece_and_in_two(bytes in fuzz::bytes_like(GRAMMAR), at in any::<prop::sample::Index>()) {
        let whole = read(&bytes);
        let at = at.index(bytes.len() + 1);
        prop_assert_eq!(read_in_pieces(&bytes, at), whole, "{:?} at {}", String::from_utf8_lossy(&bytes), at);
    }

    #[test]
    fn parsing_allocates_nothing(bytes in fuzz::bytes_like(GRAMMAR)) {
        let mut spans = ArgumentSpans::new();
        let info = allocation_counter::measure(|| _ = next(&bytes, &mut spans));
        // The error message may allocate.
        prop_assert!(info.bytes_max <= 256, "{}", info.bytes_max);
    }
}
