//! Bad input on the Redis protocol: the error, whether the connection stays open, and that nothing is charged.

use std::io::{Read, Write};

use crate::resp_support::{array, start};
use crate::support::Server;

/// Invalid values: the connection stays open.
const VALUES: [(&str, &str); 33] = [
    ("FROB", "unknown command 'FROB'; COMMAND LIST lists all commands"),
    ("'FR\tOB\u{1b}' x", "unknown command 'FR\\tOB\\u{1b}'; COMMAND LIST lists all commands"),
    (
        "CL.THROTTLE",
        "wrong number of arguments for 'cl.throttle' command: expected cl.throttle key max_burst count period [quantity]",
    ),
    (
        "CL.THROTTLE k 1 1",
        "wrong number of arguments for 'cl.throttle' command: expected cl.throttle key max_burst count period [quantity]",
    ),
    (
        "CL.THROTTLE k 1 1 1 1 1",
        "wrong number of arguments for 'cl.throttle' command: expected cl.throttle key max_burst count period [quantity]",
    ),
    ("CL.THROTTLE k -1 1 1", "max_burst `-1`: expected a whole number from 0 to 9007199254740991"),
    (
        "CL.THROTTLE k nan 1 1",
        "max_burst `nan`: expected a whole number from 0 to 9007199254740991",
    ),
    (
        "CL.THROTTLE k 9007199254740992 1 1",
        "max_burst `9007199254740992`: expected a whole number from 0 to 9007199254740991",
    ),
    ("CL.THROTTLE k 1 0 1", "count `0`: expected a whole number from 1 to 9007199254740992"),
    ("CL.THROTTLE k 1 inf 1", "count `inf`: expected a whole number from 1 to 9007199254740992"),
    (
        "CL.THROTTLE k 1 9007199254740993 1",
        "count `9007199254740993`: expected a whole number from 1 to 9007199254740992",
    ),
    ("CL.THROTTLE k 1 1 0", "period `0`: expected a whole number from 1 to 9007199254"),
    (
        "CL.THROTTLE k 1 1 9007199255",
        "period `9007199255`: expected a whole number from 1 to 9007199254",
    ),
    ("CL.THROTTLE k 1 1 1.5", "period `1.5`: expected a whole number from 1 to 9007199254"),
    (
        "CL.THROTTLE k 1 1 1 1e400",
        "quantity `1e400`: expected a whole number from -9007199254740992 to 9007199254740992",
    ),
    (
        "CL.THROTTLE k 1 1 1 ''",
        "quantity ``: expected a whole number from -9007199254740992 to 9007199254740992",
    ),
    (
        "CL.THROTTLE k 1 1 1 9007199254740993",
        "quantity `9007199254740993`: expected a whole number from -9007199254740992 to 9007199254740992",
    ),
    (
        "CL.THROTTLE k 1 1 1 -9223372036854775809",
        "quantity `-9223372036854775809`: expected a whole number from -9007199254740992 to 9007199254740992",
    ),
    (
        "CL.THROTTLE k 9007199254740991 1 9007199254",
        "max_burst 9007199254740991 with count 1 and period 9007199254 could not be exact: use a smaller max_burst, or a count that divides the period",
    ),
    (
        "TG.CHECK api",
        "wrong number of arguments for 'tg.check' command: expected tg.check policy key [cost]",
    ),
    ("TG.CHECK apj k", "no policy is called `apj`"),
    ("TG.CHECK '' k", "no policy is called ``"),
    (
        "TG.CHECK signup k",
        "policy `signup` counts by `ip`, but this command has only one key: use the HTTP API",
    ),
    (
        "TG.CHECK export k",
        "policy `export` is a leaky bucket: it delays, so reserve instead of check",
    ),
    ("TG.CHECK api ''", "key is empty: give the name of the caller"),
    ("TG.CHECK api k -1", "cost `-1`: expected a whole number from 0 to 9007199254740992"),
    ("TG.CHECK api k nan", "cost `nan`: expected a whole number from 0 to 9007199254740992"),
    ("TG.CHECK api k inf", "cost `inf`: expected a whole number from 0 to 9007199254740992"),
    ("TG.CHECK api k 1e400", "cost `1e400`: expected a whole number from 0 to 9007199254740992"),
    (
        "TG.CHECK api k 9007199254740993",
        "cost `9007199254740993`: expected a whole number from 0 to 9007199254740992",
    ),
    ("TG.CHECK api k ''", "cost ``: expected a whole number from 0 to 9007199254740992"),
    (
        "CONFIG SET save x",
        "the configuration cannot be changed here: only CONFIG GET name … is supported",
    ),
    (
        "CLIENT SETNAME 'a b'",
        "Client names cannot contain spaces, newlines or special characters, or be longer than 256 bytes",
    ),
];

/// Protocol errors: the connection is closed.
const BROKEN: [(&str, &str); 12] = [
    ("*65\r\n", "invalid multibulk length: expected at most 64"),
    ("*-7\r\n", "invalid multibulk length: expected at most 64"),
    ("*1000000000\r\n", "invalid multibulk length: expected at most 64"),
    ("*nan\r\n", "invalid multibulk length: `nan` is not a number"),
    ("*1\r\n$-1\r\n", "invalid bulk length: expected 0 or more"),
    ("*1\r\n$1000000000000\r\n", "a command is larger than 65536 bytes"),
    ("*1\r\n$inf\r\n", "invalid bulk length: `inf` is not a number"),
    ("*2\r\n$4\r\nECHO\r\n*1\r\n$1\r\nx\r\n", "expected '$', got '*'"),
    ("*1\r\n$4\r\nPINGPING\r\n", "expected CRLF after a bulk of 4 bytes"),
    ("*1\r\n\0", "expected '$', got '\\x00'"),
    ("ECHO \"x\r\n", "unbalanced quotes in request, or an escape: send an array"),
    ("POST / HTTP/1.1\r\nHost: x\r\n\r\n", "this is not an HTTP server"),
];

/// No key of the bad input was charged.
fn untouched(server: &Server) {
    assert_eq!(server.cell_reply("TG.PEEK api k 0"), [0, 20, 20, -1, 0]);
    assert_eq!(server.cell_reply("CL.THROTTLE k 1 1 1 0"), [0, 2, 2, -1, 0]);
}

#[test]
fn an_invalid_value_is_named_and_charges_nothing() {
    let server = start(&[]);
    for (line, expected) in VALUES {
        let reply = server.resp_raw(format!("{line}\r\nPING\r\nQUIT\r\n").as_bytes());
        assert_eq!(reply, format!("-ERR {expected}\r\n+PONG\r\n+OK\r\n"), "{line}");
    }
    let long = array(&["TG.CHECK", &"x".repeat(60_000), "k"]) + &array(&["QUIT"]);
    let reply = server.resp_raw(long.as_bytes());
    assert_eq!(reply, format!("-ERR no policy is called `{}…`\r\n+OK\r\n", "x".repeat(64)));
    let split = array(&["a\r\n+OK\r\nb", "k"]) + &array(&["QUIT"]);
    let reply = server.resp_raw(split.as_bytes());
    assert_eq!(
        reply,
        "-ERR unknown command 'a\\r\\n+OK\\r\\nb'; COMMAND LIST lists all commands\r\n+OK\r\n"
    );
    untouched(&server);
}

#[test]
fn a_protocol_error_is_named_and_ends_the_connection() {
    let server = start(&[]);
    for (bytes, expected) in BROKEN {
        // Commands before the error are answered; commands after it are ignored.
        let sent = format!("PING\r\n{bytes}\r\nTG.CHECK api k\r\n");
        let expected = format!("+PONG\r\n-ERR Protocol error: {expected}\r\n");
        assert_eq!(server.resp_raw(sent.as_bytes()), expected, "{bytes:?}");
    }
    untouched(&server);
}

#[test]
fn a_command_may_arrive_in_any_pieces() {
    let server = start(&[]);
    let whole = array(&["CL.THROTTLE", "cut", "1", "1", "3600"]) + "PING\r\n" + &array(&["QUIT"]);
    let mut stream = server.resp_connect();
    for byte in whole.as_bytes() {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:3600\r\n+PONG\r\n+OK\r\n");
    // An incomplete command is not run.
    for len in [1, 5, 30, whole.find("PING").unwrap() - 1] {
        let mut stream = server.resp_connect();
        stream.write_all(&whole.as_bytes()[..len]).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        assert_eq!(reply, "", "{len}");
    }
    assert_eq!(server.cell_reply("CL.THROTTLE cut 1 1 3600 0")[..3], [0, 2, 1]);
}

#[test]
fn memory_stays_constant_for_any_input() {
    let server = start(&[]);
    let rss_kib = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(server.resp_line("PING"), "+PONG\r\n");
    let before = rss_kib();
    // Idle connections, lengths of a gigabyte, halves of large commands, and floods above the bounds.
    let idle: Vec<_> = (0..200).map(|_| server.resp_connect()).collect();
    let mut halves = Vec::new();
    for _ in 0..50 {
        let mut stream = server.resp_connect();
        stream
            .write_all(format!("*2\r\n$4\r\nECHO\r\n$60000\r\n{}", "x".repeat(50_000)).as_bytes())
            .unwrap();
        halves.push(stream);
    }
    for _ in 0..20 {
        for claim in ["*1\r\n$1073741824\r\n", "*1073741824\r\n"] {
            assert!(server.resp_raw(claim.as_bytes()).starts_with("-ERR Protocol error"));
        }
        let flood = "x".repeat(1 << 20);
        assert_eq!(
            server.resp_raw(flood.as_bytes()),
            "-ERR Protocol error: a command is larger than 65536 bytes\r\n"
        );
    }
    assert_eq!(server.resp_line("PING"), "+PONG\r\n");
    let grown = rss_kib().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB more");
    drop((idle, halves));
    untouched(&server);
}
