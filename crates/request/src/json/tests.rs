use proptest::prelude::*;
use tidegate_testkit::fuzz::{self, Grammar};

use super::*;

fn value(pointer: &str, body: &[u8]) -> Result<Option<String>, Repeated> {
    Pointer::read(pointer).unwrap().value(body)
}

#[test]
fn a_pointer_finds_one_text_number_or_truth_value() {
    let deep = format!("{{\"deep\":{}{},\"a\":\"x\"}}", "[".repeat(20_000), "]".repeat(20_000));
    for (pointer, body, expected) in [
        ("/a", r#"{"a":"x"}"#, Some("x")),
        ("/a", r#" { "b" : [1,{}] , "a" : "x" } "#, Some("x")),
        ("/a", r#"{"\u0061":"\u0078"}"#, Some("x")),
        ("/a", "\u{feff}{\"a\":\"x\"}", Some("x")),
        ("/a", r#"{"a":" x\t"}"#, Some("x")),
        ("/a", &deep, Some("x")),
        ("/a/b/0/c", r#"{"a":{"b":[{"c":"x"},{"c":"y"}]}}"#, Some("x")),
        ("/a/1", r#"{"a":["x","y"]}"#, Some("y")),
        ("/0", r#"["x"]"#, Some("x")),
        ("/0", r#"{"0":"x"}"#, Some("x")),
        ("/a~1b", r#"{"a/b":"x"}"#, Some("x")),
        ("/m~0n", r#"{"m~n":"x"}"#, Some("x")),
        ("/~01", r#"{"~1":"x"}"#, Some("x")),
        ("/", r#"{"":"x"}"#, Some("x")),
        ("/a", r#"{"a":7}"#, Some("7")),
        ("/a", r#"{"a":7.0}"#, Some("7")),
        ("/a", r#"{"a":70e-1}"#, Some("7")),
        ("/a", r#"{"a":-7}"#, Some("-7")),
        ("/a", r#"{"a":-0}"#, Some("0")),
        ("/a", r#"{"a":9007199254740991}"#, Some("9007199254740991")),
        ("/a", r#"{"a":-9007199254740991}"#, Some("-9007199254740991")),
        ("/a", r#"{"a":true}"#, Some("true")),
        // What is beside the value may be anything that is JSON.
        ("/a", r#"{"a":"x","b":1e999,"c":"\ud800","\udc00":1}"#, Some("x")),
        // What follows the first value: some servers ignore it.
        ("/a", r#"{"a":"x"}x"#, Some("x")),
        ("/a", r#"{"a":"x"}//"#, Some("x")),
        ("/a", r#"{"a":"x"}{"a":"y"}"#, Some("x")),
        // Not one value to count by.
        ("/a", r#"{"a":9007199254740992}"#, None),
        ("/a", r#"{"a":18446744073709551615}"#, None),
        ("/a", r#"{"a":1e400}"#, None),
        ("/a", r#"{"a":0.5}"#, None),
        ("/a", r#"{"a":null}"#, None),
        ("/a", r#"{"a":""}"#, None),
        ("/a", r#"{"a":"  "}"#, None),
        ("/a", r#"{"a":"x\u0000"}"#, None),
        ("/a", r#"{"a":"\ud800"}"#, None),
        ("/a", r#"{"a":["x"]}"#, None),
        ("/a", r#"{"a":{"a":"x"}}"#, None),
        ("/a/b", r#"{"a":"b"}"#, None),
        ("/a/00", r#"{"a":["x"]}"#, None),
        ("/a/-", r#"{"a":["x"]}"#, None),
        ("/a/2", r#"{"a":["x"]}"#, None),
        ("/a", r#"{"b":"x"}"#, None),
        ("/a", r#""a""#, None),
        // Not JSON.
        ("/a", "", None),
        ("/a", r#"{"a":"x""#, None),
        ("/a", r#"{"a":"x",}"#, None),
        ("/a", r#"{a:"x"}"#, None),
        ("/a", "{'a':'x'}", None),
        ("/a", r#"{"a":NaN}"#, None),
        ("/a", "a=x", None),
    ] {
        assert_eq!(value(pointer, body.as_bytes()), Ok(expected.map(str::to_owned)), "{body:.80}");
    }
    assert_eq!(value("/a", b"{\"a\":\"\xff\"}"), Ok(None));
    assert_eq!(value("/a", b"{\"b\":\"\xff\",\"\xfe\":1,\"a\":\"x\"}"), Ok(Some("x".to_owned())));
    assert_eq!(
        value(
            "/a",
            "{\"a\":\"x\"}"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect::<Vec<_>>()
                .as_slice()
        ),
        Ok(None)
    );
}

#[test]
fn a_name_that_servers_could_read_twice_is_ambiguous() {
    for (pointer, body) in [
        ("/a", r#"{"a":"x","a":"y"}"#),
        ("/a", r#"{"a":"x","a":"x"}"#),
        ("/a", r#"{"a":"x","a":null}"#),
        ("/a", r#"{"a":"x","\u0061":"y"}"#),
        ("/a", r#"{"a":"x","A":"y"}"#),
        ("/a", r#"{"A":"x"}"#),
        ("/sub", "{\"sub\":\"x\",\"\u{17f}ub\":\"y\"}"),
        ("/a/b", r#"{"a":{"b":"x"},"a":{"b":"y"}}"#),
        ("/a/b", r#"{"a":{"b":"x","B":"y"}}"#),
        ("/a/b", r#"{"A":{"b":"x"}}"#),
        ("/a/0/b", r#"{"a":[{"b":1,"b":2}]}"#),
    ] {
        assert_eq!(value(pointer, body.as_bytes()), Err(Repeated), "{body}");
    }
    for (pointer, body) in [
        ("/a", r#"{"b":1,"b":2,"B":3,"a":"x"}"#),
        ("/a", r#"{"c":{"a":1,"a":2},"a":"x"}"#),
        ("/a/0", r#"{"a":["x",{"0":1,"0":2}]}"#),
    ] {
        assert_eq!(value(pointer, body.as_bytes()), Ok(Some("x".to_owned())), "{body}");
    }
}

#[test]
fn what_is_no_pointer_is_refused() {
    for text in ["", "a", "a/b", "/~", "/~2", "/a~", "/~x/b", "#/a"] {
        assert_eq!(Pointer::read(text), None, "{text}");
    }
    assert!(Pointer::read(&"/a".repeat(16)).is_some());
    assert_eq!(Pointer::read(&"/a".repeat(17)), None);
}

#[test]
fn a_body_is_json_by_its_type_and_not_compressed() {
    for (lines, expected) in [
        (&[("content-type", "application/json")][..], true),
        (&[("content-type", "Application/JSON ; charset=utf-8")], true),
        (&[("content-type", "application/problem+json")], true),
        (&[("content-type", "text/json")], true),
        (&[("content-type", "text/plain"), ("content-type", "application/json")], true),
        (&[("content-type", "application/json"), ("content-encoding", "identity")], true),
        (&[], false),
        (&[("content-type", "text/plain")], false),
        (&[("content-type", "application/jsonx")], false),
        (&[("content-type", "application/x-www-form-urlencoded")], false),
        (&[("content-type", "text/plain; x=application/json")], false),
        (&[("content-type", "application/json"), ("content-encoding", "gzip")], false),
        (&[("content-type", "application/json"), ("content-encoding", "identity, gzip")], false),
    ] {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        assert_eq!(is_json(&headers), expected, "{lines:?}");
    }
}

/// Bodies with the value at `/a/b`, and what they are made of.
const GRAMMAR: Grammar = Grammar {
    whole: &[r#"{"a":{"b":"x"},"c":[1,2.5,true,null]}"#, r#"[{"a":{"b":7}}]"#],
    words: &[
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"a\"",
        "\"A\"",
        "\"b\"",
        "\"a\":{\"b\":\"x\"}",
        "1e400",
        "-0.0",
        "null",
        "\"",
        "\\",
        "\\u0000",
        "\\ud800",
        "\u{feff}",
        " ",
    ],
};

proptest! {
    #![proptest_config(fuzz::config(10_000))]

    #[test]
    fn any_body_has_what_a_whole_reader_finds_or_nothing(body in fuzz::bytes_like(GRAMMAR)) {
        let found = fuzz::held_to(100, &body, || value("/a/b", &body));
        let first = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&body);
        let whole = serde_json::Deserializer::from_slice(first).into_iter::<Value>().next();
        // What a whole reader rejects beside the value may be there.
        if let Some(Ok(whole)) = whole {
            let expected = whole.pointer("/a/b").and_then(scalar);
            // Only strings are trimmed.
            let expected = expected.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty());
            prop_assert!(found == Ok(expected) || found == Err(Repeated));
        }
    }
}
