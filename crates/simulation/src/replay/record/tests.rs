use super::*;

fn at(text: &str) -> Option<String> {
    time::any(text)
        .ok()
        .map(|instant| format!("{}{:03}", rfc_3339_utc(instant.us), instant.us / 1000 % 1000))
}

#[test]
fn instants_are_read_as_servers_write_them() {
    for (text, expected) in [
        ("10/Oct/2026:13:55:36 -0700", "2026-10-10T20:55:36Z000"),
        ("10/Oct/2026:13:55:36 +02:00", "2026-10-10T11:55:36Z000"),
        ("10/Oct/2026:13:55:36 Z", "2026-10-10T13:55:36Z000"),
        ("29/Feb/2024:23:59:60 +0000", "2024-03-01T00:00:00Z000"),
        ("01/Jan/1970:00:00:00 +0000", "1970-01-01T00:00:00Z000"),
        ("2026-10-10T13:55:36Z", "2026-10-10T13:55:36Z000"),
        ("2026-10-10T13:55:36.123456789+02:00", "2026-10-10T11:55:36Z123"),
        ("2026-10-10T13:55:36.1234567891234Z", "2026-10-10T13:55:36Z123"),
        ("2026-12-31 23:30:00.5 -0100", "2027-01-01T00:30:00Z500"),
        ("2100-03-01T00:00:00", "2100-03-01T00:00:00Z000"),
        ("1700000000", "2023-11-14T22:13:20Z000"),
        ("1700000000.25", "2023-11-14T22:13:20Z250"),
        ("1700000000250", "2023-11-14T22:13:20Z250"),
        ("1700000000250000", "2023-11-14T22:13:20Z250"),
        ("1700000000250000000", "2023-11-14T22:13:20Z250"),
    ] {
        assert_eq!(at(text).as_deref(), Some(expected), "{text}");
    }
    for bad in [
        "",
        "yesterday",
        "31/Feb/2026:00:00:00 +0000",
        "10/Oct/2026:24:00:00 +0000",
        "10/Okt/2026:13:55:36 +0000",
        "10/Oct/2026:13:55:36",
        "2026-13-01T00:00:00Z",
        "2026-10-10T13:55:36.Z",
        "2026-10-10T13:55:36,5Z",
        "2026-10-10T13:55:36+2",
        "1969-12-31T23:59:59Z",
        "9999-01-01T00:00:00Z",
        "1.7e9",
        "-5",
        "1700000000.x",
        "99999999999999999999",
        "１７",
    ] {
        assert_eq!(at(bad), None, "{bad}");
    }
}

#[test]
fn only_what_has_a_fraction_is_finer_than_a_second() {
    for (text, fine) in
        [("1700000000", false), ("1700000000.0", true), ("2026-10-10T13:55:36Z", false)]
    {
        assert_eq!(time::any(text).unwrap().has_fraction, fine, "{text}");
    }
}

#[test]
fn the_common_and_the_combined_format_are_read() {
    let common = r#"192.0.2.7 - bob [10/Oct/2026:13:55:36 -0700] "GET /a/b?c=d HTTP/1.1" 200 2326"#;
    let record = Record::read(common, true).unwrap();
    assert_eq!((record.client.to_string().as_str(), &*record.method), ("192.0.2.7", "GET"));
    assert_eq!((&*record.target, &*record.host, record.headers.len()), ("/a/b?c=d", "", 0));

    let combined = format!(r#"{common} "https://x/\"y\"" "curl/8 \\ \"quoted\"""#);
    let record = Record::read(&combined, true).unwrap();
    let headers: Vec<_> = record.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let expected = [("referer", r#"https://x/"y""#), ("user-agent", r#"curl/8 \ "quoted""#)];
    assert_eq!(headers, expected);

    let six = r#"2001:db8::1 - - [10/Oct/2026:13:55:36 +0000] "POST / HTTP/2" 200 - "-" "-""#;
    assert_eq!(Record::read(six, true).unwrap().headers, []);
}

#[test]
fn json_is_read_under_the_names_of_many_servers() {
    let read = |line: &str| {
        let record = Record::read(line, true).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Record { client, method, target, host, .. } = &record;
        (format!("{client} {method} {host}{target}"), record.at.us, record.headers.len())
    };
    for (line, headers) in [
        (
            r#"{"time":"2023-11-14T22:13:20Z","client_ip":"192.0.2.7","method":"GET","host":"h","path":"/a"}"#,
            0,
        ),
        (
            r#"{"time_iso8601":"2023-11-14T22:13:20+00:00","remote_addr":"192.0.2.7","request":"GET /a HTTP/1.1","host":"h","http_user_agent":"x"}"#,
            1,
        ),
        (
            r#"{"level":"info","ts":1700000000,"request":{"remote_ip":"192.0.2.7","remote_port":"5","method":"GET","host":"h","uri":"/a","headers":{"User-Agent":["x"],"Accept":["y","z"]}},"status":200}"#,
            3,
        ),
        (
            r#"{"ts":1700000000,"request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.7","method":"GET","host":"h","uri":"/a"}}"#,
            0,
        ),
        (
            r#"{"ts":1700000000,"client_ip":"-","remote_addr":"192.0.2.7","method":"GET","host":"h","uri":"/a"}"#,
            0,
        ),
        (
            r#"{"ClientHost":"192.0.2.7","RequestMethod":"GET","RequestHost":"h","RequestPath":"/a","StartUTC":"2023-11-14T22:13:20Z","time":"2030-01-01T00:00:00Z"}"#,
            0,
        ),
        (
            r#"{"start_time":"2023-11-14T22:13:20Z","downstream_remote_address":"192.0.2.7:4711","method":"GET","path":"\/a","authority":"h","user_agent":"-"}"#,
            0,
        ),
    ] {
        assert_eq!(read(line), ("192.0.2.7 GET h/a".to_owned(), 1_700_000_000_000_000, headers));
    }
}

#[test]
fn what_cannot_be_read_says_why() {
    let json = |rest: &str| format!(r#"{{"ts":1700000000,"ip":"192.0.2.7","method":"GET"{rest}}}"#);
    for (line, expected) in [
        ("", "no client"),
        ("hello there", "no time in brackets"),
        ("192.0.2.7 - - [10/Oct/2026:13:55:36 +0000", "no time in brackets"),
        ("192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] GET /", "no request in quotes"),
        (
            r#"192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1 200"#,
            "no request in quotes",
        ),
        (r#"192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "-" 400 0"#, "`-` is no request"),
        (
            r#"192.0.2.7 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03" 400 0"#,
            r"`\x16\x03` is no request",
        ),
        (r#"192.0.2.7 - - [soon] "GET / HTTP/1.1" 200 1"#, "`soon` is no time"),
        (
            r#"example.com - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1" 200 1"#,
            "`example.com` is no client",
        ),
        ("{", "no JSON: EOF while parsing an object at line 1 column 1"),
        (r#"{"a":1}"#, "no method"),
        (&json(""), "no path"),
        (&json(r#","path":7"#), "no path"),
        (r#"{"ip":"192.0.2.7","method":"GET","path":"/"}"#, "no time"),
        (r#"{"ts":1,"method":"GET","path":"/"}"#, "no client"),
        (r#"{"ts":true,"ip":"192.0.2.7","method":"GET","path":"/"}"#, "`true` is no time"),
    ] {
        assert_eq!(Record::read(line, true).unwrap_err().to_string(), expected, "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn an_instant_is_read_as_it_is_written(second in 0_u64..7_258_118_400) {
        let written = rfc_3339_utc(second * 1_000_000);
        proptest::prop_assert_eq!(time::any(&written).map(|read| read.us), Ok(second * 1_000_000));
    }

    #[test]
    fn no_line_is_a_panic(line in ".*") {
        let _ = Record::read(&line, true);
    }

    #[test]
    fn nearly_right_lines_are_no_panic_either(
        cut in 0_usize..120,
        put in "[\\[\\]\"\\\\ {}:/é0-9]{0,4}",
    ) {
        for line in [
            r#"192.0.2.7 - bob [10/Oct/2026:13:55:36 -0700] "GET /a?c=d HTTP/1.1" 200 2326 "r" "agent""#,
            r#"{"time":"2023-11-14T22:13:20.5Z","client_ip":"192.0.2.7","request":{"uri":"/a"},"headers":{"a":[1]}}"#,
        ] {
            let cut = cut.min(line.len());
            let _ = Record::read(&format!("{}{put}{}", &line[..cut], &line[cut..]), true);
            let _ = Record::read(&format!("{}{put}", &line[..cut]), true);
        }
    }
}
