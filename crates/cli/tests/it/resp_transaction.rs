//! `MULTI`, `EXEC` and `DISCARD`: nothing is charged before `EXEC`, and then all of it, in order.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::resp_support::{array, start};
use crate::support::Server;

const QUEUED: &str = "+QUEUED\r\n";
const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";
const THROTTLE: &str = "CL.THROTTLE k 4 1 3600\r\n";

/// The remaining units of the key that all transactions here charge: a burst of five, and one an hour.
fn left(server: &Server) -> i64 {
    server.cell_reply("CL.THROTTLE k 4 1 3600 0")[2]
}

#[test]
fn exec_answers_and_charges_everything_in_order() {
    let server = start(&[]);
    for (greeting, spent) in [("", 0), ("HELLO 3\r\n", 2)] {
        let lines =
            format!("{greeting}MULTI\r\n{THROTTLE}ECHO between\r\n{THROTTLE}EXEC\r\nECHO after");
        let reply = server.resp_line(&lines);
        let replies = [1, 2].map(|n| {
            let spent = spent + n;
            format!("*5\r\n:0\r\n:5\r\n:{}\r\n:-1\r\n:{}\r\n", 5 - spent, 3600 * spent)
        });
        let expected = format!(
            "+OK\r\n{}*3\r\n{}$7\r\nbetween\r\n{}$5\r\nafter\r\n",
            QUEUED.repeat(3),
            replies[0],
            replies[1]
        );
        assert!(reply.ends_with(&expected), "{greeting}: {reply}");
    }
    assert_eq!(left(&server), 1);
}

#[test]
fn transactions_behave_as_in_redis() {
    let redis = RedisServer::start();
    let server = start(&[]);
    for lines in [
        "EXEC",
        "DISCARD",
        "MULTI\r\nEXEC",
        "MULTI\r\nPING\r\nMULTI\r\nPING\r\nEXEC",
        "MULTI\r\nPING\r\nDISCARD\r\nEXEC",
        "MULTI\r\nPING\r\nRESET\r\nEXEC\r\nPING",
        "MULTI\r\nECHO\r\nPING\r\nEXEC\r\nPING",
        "MULTI\r\nFROB\r\nECHO\r\nDISCARD\r\nMULTI\r\nPING\r\nEXEC",
        "MULTI\r\nPING\r\nDISCARD now\r\nEXEC",
        "MULTI\r\nSELECT 99\r\nCLIENT SETNAME me\r\nCLIENT GETNAME\r\nEXEC",
        "MULTI\r\nPING\r\nQUIT",
        "MULTI\r\nPING\r\n\r\n*0\r\nEXEC",
    ] {
        let theirs = TcpStream::connect(("127.0.0.1", redis.port())).unwrap();
        assert_eq!(
            without_reasons(&replies(server.resp_connect(), lines)),
            without_reasons(&replies(theirs, lines)),
            "{lines:?}"
        );
    }
}

/// Sends lines and `QUIT`, and reads all replies.
fn replies(mut stream: TcpStream, lines: &str) -> String {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("{lines}\r\nQUIT\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// A reply with errors reduced to their kind, because the texts differ.
fn without_reasons(reply: &str) -> Vec<&str> {
    let kind = |line| if str::starts_with(line, '-') { line.split(' ').next() } else { Some(line) };
    reply.lines().filter_map(kind).collect()
}

#[test]
fn nothing_is_charged_before_exec_or_with_an_invalid_command() {
    let server = start(&[]);
    for (lines, expected) in [
        ("FROB\r\nEXEC", ABORTED),
        ("CL.THROTTLE k\r\nEXEC", ABORTED),
        ("MULTI now\r\nEXEC", ABORTED),
        ("DISCARD\r\nEXEC", "-ERR EXEC without MULTI\r\n"),
        ("RESET\r\nEXEC", "-ERR EXEC without MULTI\r\n"),
        ("PING", QUEUED),
    ] {
        for lines in
            [format!("MULTI\r\n{THROTTLE}{lines}"), format!("MULTI\r\n{THROTTLE}{lines}\r\nPING")]
        {
            let reply = server.resp_line(&lines);
            assert!(reply.contains(expected), "{lines}: {reply}");
        }
    }
    assert_eq!(left(&server), 5);
    // An invalid value is one error among the replies.
    let reply =
        server.resp_line(&format!("MULTI\r\n{THROTTLE}CL.THROTTLE k 4 0 1\r\n{THROTTLE}EXEC"));
    assert!(reply.contains("*3\r\n*5\r\n:0\r\n") && reply.contains("-ERR count `0`"), "{reply}");
    assert_eq!(left(&server), 3);
}

#[test]
fn queued_commands_are_bounded_and_beyond_the_bounds_none_runs() {
    let server = start(&[]);
    let large = array(&["ECHO", &"x".repeat(60_000)]);
    for (command, fit) in [("PING\r\n".to_owned(), 4096), (large, 4)] {
        let run =
            |count: usize| server.resp_line(&format!("MULTI\r\n{}EXEC", command.repeat(count)));
        let reply = run(fit);
        assert!(reply.contains(&format!("{QUEUED}*{fit}\r\n")), "{} bytes", reply.len());
        // Above the bound, further commands are answered and not stored.
        let reply = run(fit + 2);
        let problem = "-ERR a transaction has at most 4096 commands and 262144 bytes: \
                       send several, or a pipeline without MULTI\r\n";
        let expected = format!("+OK\r\n{}{problem}{QUEUED}{ABORTED}", QUEUED.repeat(fit));
        assert!(reply == expected, "{} bytes", reply.len());
    }
}

#[test]
fn a_transaction_may_arrive_in_any_pieces() {
    let server = start(&[]);
    let whole = array(&["MULTI"])
        + &array(&["CL.THROTTLE", "k", "4", "1", "3600"]).repeat(2)
        + &array(&["EXEC"])
        + &array(&["QUIT"]);
    let mut stream = server.resp_connect();
    for byte in whole.as_bytes() {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("*2\r\n*5\r\n") && reply.ends_with("+OK\r\n"), "{reply}");
    assert_eq!(left(&server), 3);
    // Without a complete `EXEC` nothing runs.
    let mut stream = server.resp_connect();
    let cut = whole.rfind("EXEC").unwrap() + 3;
    stream.write_all(&whole.as_bytes()[..cut]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, format!("+OK\r\n{}", QUEUED.repeat(2)));
    assert_eq!(left(&server), 3);
}

#[test]
fn over_redis_a_transaction_larger_than_one_batch_is_answered_in_order() {
    let redis = RedisServer::start();
    let server = start(&["--store", &redis.url()]);
    let mut attempt = 0;
    // If Redis misses its deadline on a busy machine, or is not connected yet, this node's share is admitted.
    wait_until("a transaction is decided by Redis alone", DEADLINE, || {
        attempt += 1;
        let throttle = format!("CL.THROTTLE k{attempt} 999 1 3600\r\n");
        let reply = server.resp_line(&format!(
            "MULTI\r\n{}ECHO last\r\nEXEC\r\nECHO after",
            throttle.repeat(600)
        ));
        let answers = reply.split_once("*601\r\n").unwrap().1;
        assert!(answers.ends_with("$4\r\nlast\r\n$5\r\nafter\r\n"), "{answers}");
        let left: Vec<i64> = answers
            .split("*5\r\n")
            .skip(1)
            .map(|reply| reply.split("\r\n").nth(2).unwrap()[1..].parse().unwrap())
            .collect();
        assert_eq!(left.len(), 600);
        left == (400..1000).rev().collect::<Vec<_>>()
    });
}
