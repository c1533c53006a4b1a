//! The Redis protocol over a store in Redis: bursts in one round trip, in order, and an answer also while it is gone.

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::resp_support::{array, five, start};
use crate::support::Server;

fn server(redis: &RedisServer) -> Server {
    let server = start(&["--store", &redis.url()]);
    let source = || {
        let reply = server.post("/v1/peek", r#"{"policy":"api","key":"probe","cost":0}"#).json();
        reply["source"].as_str().unwrap_or_default().to_owned()
    };
    wait_until("the server counts in Redis", DEADLINE, || source() == "store");
    server
}

/// The answers of one burst; the last is that of `QUIT`.
fn burst(server: &Server, commands: &[String]) -> Vec<String> {
    let reply = server.resp_raw((commands.concat() + &array(&["QUIT"])).as_bytes());
    let mut answers: Vec<String> = Vec::new();
    for line in reply.split_inclusive("\r\n") {
        match answers.last_mut() {
            Some(last) if line.starts_with(':') => last.push_str(line),
            _ => answers.push(line.to_owned()),
        }
    }
    answers
}

#[test]
fn a_burst_is_answered_in_order_and_charged_in_order() {
    let redis = RedisServer::start();
    let (one, other) = (server(&redis), server(&redis));
    let throttle = |quantity| array(&["CL.THROTTLE", "k", "9", "1", "3600", quantity]);
    let echo = array(&["ECHO", "between"]);
    let check = array(&["TG.CHECK", "login", "k", "2"]);
    let commands = [
        throttle("4"),
        echo.clone(),
        check.clone(),
        throttle("7"),
        throttle("-1"),
        throttle("7"),
        echo,
        check,
    ];
    let answers = burst(&one, &commands);
    let said = |answer: &String| match five(answer) {
        Some([limited, _, left, _, _]) => format!("{limited} {left}"),
        None => answer.trim_end().to_owned(),
    };
    let said: Vec<String> = answers.iter().map(said).collect();
    let expected =
        ["0 6", "$7", "between", "0 3", "1 6", "0 7", "0 0", "$7", "between", "0 1", "+OK"];
    assert_eq!(said, expected);
    // Counted together with other servers.
    assert_eq!(other.five("CL.THROTTLE k 9 1 3600 0")[..3], [0, 10, 0]);
}

#[test]
fn a_large_burst_admits_exactly_the_limit() {
    let redis = RedisServer::start();
    let server = server(&redis);
    let mut attempt = 0;
    // Where Redis missed its deadline on a busy machine, this node's share was admitted as well.
    wait_until("a burst is decided by Redis alone", DEADLINE, || {
        attempt += 1;
        let command = array(&["CL.THROTTLE", &format!("hot-{attempt}"), "99", "1", "3600"]);
        let answers = burst(&server, &vec![command; 1_000]);
        let decided: Vec<_> = answers.iter().filter_map(|answer| five(answer)).collect();
        assert_eq!(decided.len(), 1_000);
        let admitted = decided.iter().filter(|five| five[0] == 0).count();
        assert!((100..=200).contains(&admitted), "{admitted}");
        admitted == 100
    });
}

#[test]
fn a_failure_of_redis_is_no_refusal_and_heals() {
    let redis = RedisServer::start();
    let server = server(&redis);
    assert_eq!(server.five("CL.THROTTLE k 0 1 3600")[..3], [0, 1, 0]);
    redis.kill();
    // In its place stands this node's share, from nothing; what cannot be stood in for is an error.
    wait_until("the server stands in for it", DEADLINE, || {
        server.five("CL.THROTTLE k 0 1 3600 0")[2] == 1
    });
    let reply = server.resp_line("CL.THROTTLE k 0 1 3600 -1");
    assert!(reply.starts_with("-ERR store unavailable ("), "{reply}");
    let reply = server.resp_line("TG.REFUND login k");
    assert!(reply.starts_with("-ERR store unavailable ("), "{reply}");
    assert!(!reply.contains(&redis.port().to_string()), "{reply}");
    assert_eq!(server.five("TG.CHECK login k")[..3], [0, 5, 4]);
}
