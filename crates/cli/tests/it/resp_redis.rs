//! The Redis protocol over a Redis store: pipelines in one round trip, in order, and answers during an outage.

use crate::processes::{DEADLINE, RedisServer, wait_until};
use crate::resp_support::{array, parse_cell_reply, start};
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

/// The replies of one pipeline; the last is that of `QUIT`.
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
fn a_pipeline_is_charged_and_answered_in_order() {
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
    let summary = |answer: &String| match parse_cell_reply(answer) {
        Some([limited, _, left, _, _]) => format!("{limited} {left}"),
        None => answer.trim_end().to_owned(),
    };
    let summary: Vec<String> = answers.iter().map(summary).collect();
    let expected =
        ["0 6", "$7", "between", "0 3", "1 6", "0 7", "0 0", "$7", "between", "0 1", "+OK"];
    assert_eq!(summary, expected);
    // The counters are shared with other servers.
    assert_eq!(other.cell_reply("CL.THROTTLE k 9 1 3600 0")[..3], [0, 10, 0]);
}

#[test]
fn a_large_pipeline_admits_exactly_the_limit() {
    let redis = RedisServer::start();
    let server = server(&redis);
    let mut attempt = 0;
    // If Redis misses its deadline on a busy machine, this node's share is admitted as well.
    wait_until("a pipeline is decided by Redis alone", DEADLINE, || {
        attempt += 1;
        let command = array(&["CL.THROTTLE", &format!("hot-{attempt}"), "99", "1", "3600"]);
        let answers = burst(&server, &vec![command; 1_000]);
        let decided: Vec<_> =
            answers.iter().filter_map(|answer| parse_cell_reply(answer)).collect();
        assert_eq!(decided.len(), 1_000);
        let admitted = decided.iter().filter(|reply| reply[0] == 0).count();
        assert!((100..=200).contains(&admitted), "{admitted}");
        admitted == 100
    });
}

#[test]
fn a_redis_outage_is_not_a_refusal() {
    let redis = RedisServer::start();
    let server = server(&redis);
    assert_eq!(server.cell_reply("CL.THROTTLE k 0 1 3600")[..3], [0, 1, 0]);
    redis.kill();
    // This node's share decides instead, without earlier usage. A refund has no fallback and is an error.
    wait_until("the server decides locally", DEADLINE, || {
        server.cell_reply("CL.THROTTLE k 0 1 3600 0")[2] == 1
    });
    let reply = server.resp_line("CL.THROTTLE k 0 1 3600 -1");
    assert!(reply.starts_with("-ERR store unavailable ("), "{reply}");
    let reply = server.resp_line("TG.REFUND login k");
    assert!(reply.starts_with("-ERR store unavailable ("), "{reply}");
    assert!(!reply.contains(&redis.port().to_string()), "{reply}");
    assert_eq!(server.cell_reply("TG.CHECK login k")[..3], [0, 5, 4]);
}
