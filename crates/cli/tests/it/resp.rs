//! The Redis protocol: the replies of all commands.

use std::io::{Read, Write};

use crate::resp_support::{array, parse_cell_reply, start};

#[test]
fn replies_match_the_reference_table_of_redis_cell() {
    let server = start(&[]);
    // In one pipeline, so that hardly any time passes: a burst of five at one a second.
    let burst = "CL.THROTTLE user 4 1 1\r\n".repeat(6) + "QUIT\r\n";
    let reply = server.resp_raw(burst.as_bytes());
    let rows: Vec<_> = reply
        .split("*5")
        .skip(1)
        .map(|row| parse_cell_reply(&format!("*5{}", row.trim_end_matches("+OK\r\n"))).unwrap())
        .collect();
    let expected = [
        [0, 5, 4, -1, 1],
        [0, 5, 3, -1, 2],
        [0, 5, 2, -1, 3],
        [0, 5, 1, -1, 4],
        [0, 5, 0, -1, 5],
        [1, 5, 0, 1, 5],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_quantity_takes_peeks_or_refunds() {
    let server = start(&[]);
    // One unit an hour, so that none is refilled during the test.
    for (quantity, expected) in [
        ("0", [0, 3, 3, -1, 0]),
        ("", [0, 3, 2, -1, 3600]),
        ("2", [0, 3, 0, -1, 10_800]),
        ("0", [0, 3, 0, -1, 10_800]),
        ("1", [1, 3, 0, 3600, 10_800]),
        ("2", [1, 3, 0, 7200, 10_800]),
        ("4", [1, 3, 0, -1, 10_800]),
        ("9007199254740992", [1, 3, 0, -1, 10_800]),
        ("-1", [0, 3, 1, -1, 7200]),
        ("2", [1, 3, 1, 3600, 7200]),
        ("-1000", [0, 3, 3, -1, 0]),
        ("-9007199254740992", [0, 3, 3, -1, 0]),
        ("4", [1, 3, 3, -1, 0]),
        ("3", [0, 3, 0, -1, 10_800]),
    ] {
        assert_eq!(
            server.cell_reply(&format!("CL.THROTTLE ann 2 1 3600 {quantity}")),
            expected,
            "{quantity}"
        );
    }
}

#[test]
fn intervals_are_exact_fractions() {
    let server = start(&[]);
    // A third of an hour per unit; and 1,000,000 units without a rounding error.
    assert_eq!(server.cell_reply("CL.THROTTLE third 0 3 3600"), [0, 1, 0, -1, 1200]);
    assert_eq!(
        server.cell_reply("CL.THROTTLE many 999999 7 86400 1000000")[..3],
        [0, 1_000_000, 0]
    );
    let last = server.cell_reply("CL.THROTTLE long 0 1 9007199254");
    assert_eq!(last, [0, 1, 0, -1, 9_007_199_254]);
}

#[test]
fn policies_are_checked_peeked_and_refunded() {
    let server = start(&[]);
    for (line, expected) in [
        ("TG.PEEK login ann", [0, 5, 4, -1, 3600]),
        ("tg.check login ann", [0, 5, 4, -1, 3600]),
        ("TG.CHECK login ann 3", [0, 5, 1, -1, 3600]),
        ("TG.CHECK login ann 2", [1, 5, 1, 3600, 3600]),
        ("TG.CHECK login ann 6", [1, 5, 1, -1, 3600]),
        ("TG.CHECK login ann 0", [0, 5, 1, -1, 3600]),
        ("TG.REFUND login ann 4", [0, 5, 5, -1, 0]),
    ] {
        assert_eq!(server.cell_reply(line), expected, "{line}");
    }
    // HTTP uses the same counters.
    assert_eq!(server.cell_reply("TG.CHECK api ann 2")[..3], [0, 20, 18]);
    assert!((18..=19).contains(&server.remaining("api", "ann")));
}

#[test]
fn throttle_keys_are_separate_from_policies_and_may_be_any_bytes() {
    let server = start(&[]);
    for key in ["login", "ann", "tg:{3:ann}:login:l", ""] {
        let words = ["CL.THROTTLE", key, "0", "1", "3600"];
        let reply = server.resp_raw((array(&words) + &array(&["QUIT"])).as_bytes());
        assert!(reply.starts_with("*5\r\n:0\r\n"), "{key:?}: {reply}");
    }
    assert_eq!(server.cell_reply("TG.CHECK login ann"), [0, 5, 4, -1, 3600]);
    // A key may be any bytes.
    let words = ["CL.THROTTLE", "\r\n\0ö", "0", "1", "3600"];
    let twice = array(&words).repeat(2) + &array(&["QUIT"]);
    let reply = server.resp_raw(twice.as_bytes());
    assert!(reply.contains("*5\r\n:0\r\n") && reply.contains("*5\r\n:1\r\n"), "{reply}");
}

#[test]
fn connection_commands_are_answered() {
    let server = start(&[]);
    for (line, expected) in [
        ("PING", "+PONG\r\n"),
        ("ping 'hello there'", "$11\r\nhello there\r\n"),
        ("ECHO \"\"", "$0\r\n\r\n"),
        ("SELECT 0", "+OK\r\n"),
        ("SELECT 1", "-ERR DB index is out of range: there is only 0\r\n"),
        ("CLIENT SETNAME me\r\nCLIENT GETNAME", "+OK\r\n$2\r\nme\r\n"),
        ("CLIENT GETNAME", "$-1\r\n"),
        ("CLIENT SETINFO LIB-NAME x", "+OK\r\n"),
        ("CLIENT NO-EVICT on", "+OK\r\n"),
        ("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        ("CONFIG GET appendonly nothing", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n"),
        ("CONFIG GET requirepass", "*0\r\n"),
        ("COMMAND COUNT", ":19\r\n"),
        ("COMMAND DOCS", "*0\r\n"),
        (
            "COMMAND INFO cl.throttle frob",
            "*2\r\n*10\r\n$11\r\ncl.throttle\r\n:-5\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n$-1\r\n",
        ),
        ("AUTH default anything", "+OK\r\n"),
        ("HELLO 4", "-NOPROTO unsupported protocol version\r\n"),
        ("HELLO 3 FROB", "-ERR Syntax error in HELLO option 'FROB'\r\n"),
        ("RESET", "+RESET\r\n"),
        ("", ""),
    ] {
        assert_eq!(server.resp_line(line), expected, "{line}");
    }
    let info = server.resp_line("INFO");
    for part in ["redis_version:7.0.0\r\n", "loading:0\r\n", "# Tidegate\r\n", "policies:9\r\n"] {
        assert!(info.contains(part), "{part} in {info}");
    }
    assert!(!server.resp_line("INFO persistence").contains("redis_version"));
}

#[test]
fn a_client_can_switch_the_protocol_version_and_back() {
    let server = start(&[]);
    let reply = server.resp_line(
        "HELLO 3 SETNAME me\r\nCLIENT GETNAME\r\nCONFIG GET save\r\nRESET\r\nCLIENT GETNAME",
    );
    let expected = "%7\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n$5\r\nproto\r\n:3\r\n";
    assert!(reply.starts_with(expected), "{reply}");
    assert!(
        reply.ends_with(
            "$7\r\nmodules\r\n*0\r\n$2\r\nme\r\n%1\r\n$4\r\nsave\r\n$0\r\n\r\n+RESET\r\n$-1\r\n"
        ),
        "{reply}"
    );
    assert!(server.resp_line("HELLO").starts_with("*14\r\n"));
    assert!(server.resp_line("HELLO 3\r\nCLIENT GETNAME").ends_with("_\r\n"));
}

#[test]
fn reset_keeps_the_counts_of_the_connection() {
    let server = start(&[]);
    let mut stream = server.resp_connect();
    // Answered alone, before `RESET`: the count must not start again.
    stream.write_all(b"TG.CHECK api k\r\n").unwrap();
    let mut first = [0; 4];
    stream.read_exact(&mut first).unwrap();
    stream.write_all(b"RESET\r\nTG.CHECK api k\r\nQUIT\r\n").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("+RESET\r\n*5\r\n") && rest.ends_with("+OK\r\n"), "{rest}");
    let counted = server.metric("tidegate_check_duration_seconds_count{door=\"resp\"}");
    assert_eq!(counted, Some(2.0));
}

#[test]
fn without_the_password_every_command_is_refused() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("resp-password");
    std::fs::write(&file, "c4nary-s3cret\n").unwrap();
    let server = start(&["--resp-password-file", file.to_str().unwrap()]);
    let noauth = "-NOAUTH Authentication required.\r\n";
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for (line, expected) in [
        ("PING", noauth),
        ("TG.CHECK api ann", noauth),
        ("CL.THROTTLE ann 1 1 1", noauth),
        ("FROB", noauth),
        ("AUTH wrong", wrong),
        ("AUTH c4nary-s3cre", wrong),
        ("AUTH somebody c4nary-s3cret", wrong),
        ("HELLO 3 AUTH default wrong", wrong),
        ("AUTH c4nary-s3cret\r\nPING", "+OK\r\n+PONG\r\n"),
        (
            "AUTH default c4nary-s3cret\r\nRESET\r\nPING",
            "+OK\r\n+RESET\r\n-NOAUTH Authentication required.\r\n",
        ),
    ] {
        assert_eq!(server.resp_line(line), expected, "{line}");
    }
    assert!(server.resp_line("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    let reply =
        server.resp_line("HELLO 3 AUTH default c4nary-s3cret\r\nPING\r\nCONFIG GET *\r\nINFO");
    assert!(reply.starts_with("%7\r\n") && reply.contains("+PONG\r\n"), "{reply}");
    assert!(!reply.contains("s3cret"), "{reply}");
    let output = crate::support::run(&[
        "serve",
        "--resp",
        "127.0.0.1:0",
        "--resp-password-file",
        "/nowhere",
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(output.code, Some(1));
    assert!(output.stderr.contains("/nowhere"), "{}", output.stderr);
}

#[test]
fn public_resp_and_grpc_addresses_need_tls_and_authentication() {
    for (door, remedy) in [
        ("--resp", "`listen.resp.tls` and `listen.resp.password_file`"),
        ("--grpc", "`listen.grpc.tls` with its `client_ca`"),
    ] {
        let output = crate::support::run(&["serve", "--listen", "127.0.0.1:0", door, "0.0.0.0:0"]);
        assert_eq!(output.code, Some(1));
        for part in ["will not listen on 0.0.0.0:0", remedy] {
            assert!(output.stderr.contains(part), "{part} in {}", output.stderr);
        }
    }
}
