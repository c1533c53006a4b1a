//! Stock Redis clients against the binary: the commands that they send, and how they parse the replies.

use std::process::Command;

use crate::programs::{installed, node, output, root};
use crate::resp_support::start;

/// The replies that every client gets to the same commands.
const REPLIES: [&str; 7] = [
    r#""PONG""#,
    "[0,3,2,-1,3600]",
    "[4,3,2]",
    "[1,0,0]",
    "-5",
    r#""ERR unknown command 'FROB'; COMMAND LIST lists all commands""#,
    r#""OK""#,
];

fn redis_cli(port: &str) -> Command {
    let mut command = Command::new("redis-cli");
    command.args(["-p", port]).env_remove("FAKETTY");
    command
}

#[test]
fn redis_cli_works_with_both_protocols_and_in_a_pipe() {
    let server = start(&[]);
    let port = server.resp_port();
    let ask = |args: &[&str]| output(redis_cli(&port).args(args));
    assert_eq!(ask(&["cl.throttle", "cli", "2", "1", "3600"]), "0\n3\n2\n-1\n3600\n");
    assert_eq!(ask(&["-3", "TG.CHECK", "login", "cli"]), "0\n5\n4\n-1\n3600\n");
    assert!(ask(&["-3", "HELLO"]).starts_with("server tidegate\nversion 7.0.0\nproto 3\n"));
    assert_eq!(ask(&["-n", "0", "PING"]), "PONG\n");
    assert!(ask(&["-e", "PING"]).starts_with("PONG"));
    assert!(ask(&["TG.CHECK", "apj", "cli"]).contains("no policy is called `apj`"));

    let words = std::env::temp_dir().join(format!("tidegate-resp-{}", std::process::id()));
    std::fs::write(&words, "PING\nTG.CHECK login cli\nFROB\nPING again\n").unwrap();
    let mut piped = redis_cli(&port);
    let printed = piped.stdin(std::fs::File::open(&words).unwrap()).output().unwrap();
    std::fs::remove_file(&words).unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    for part in ["PONG\n", "0\n5\n3\n-1\n3600\n", "unknown command 'FROB'", "again\n"] {
        assert!(printed.contains(part), "{part:?} in {printed}");
    }
}

#[test]
fn redis_benchmark_pipelines_both_commands() {
    let server = start(&[]);
    let port = server.resp_port();
    for words in ["CL.THROTTLE bench 100 1000 60", "TG.CHECK api bench:__rand_int__", "PING"] {
        let mut command = Command::new("redis-benchmark");
        command.args(["-p", &port, "-c", "20", "-P", "16", "-n", "20000", "-r", "1000", "--csv"]);
        let printed = output(command.args(words.split(' ')));
        assert!(printed.contains(words.split(' ').next().unwrap()), "{printed}");
    }
    // 101 and what has been refilled since, at 1000 a minute.
    let left = server.cell_reply("CL.THROTTLE bench 100 1000 60 0");
    assert!(left[2] < 101, "{left:?}");
}

#[test]
fn node_clients_work() {
    for script in ["ioredis.mjs", "node-redis.mjs"] {
        let server = start(&[]);
        let printed = node(&[script], &[&server.resp_port()]);
        assert_eq!(printed.lines().collect::<Vec<_>>(), REPLIES, "{script}");
    }
}

#[test]
fn redis_py_works_with_both_protocols() {
    let server = start(&[]);
    let mut python = Command::new(installed("python/bin/python"));
    let script = root().join("crates/cli/tests/clients/python/redis_py.py");
    let printed = output(python.arg(script).arg(server.resp_port()));
    assert_eq!(printed.lines().collect::<Vec<_>>(), [REPLIES, REPLIES].concat());
}

#[tokio::test]
async fn the_rust_client_works() {
    let server = start(&[]);
    for protocol in ["resp2", "resp3"] {
        let url = format!("redis://{}/?protocol={protocol}", server.resp_addr());
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let throttle =
            |n: i64| redis::cmd("CL.THROTTLE").arg(protocol).arg(&[2, 1, 3600, n]).clone();
        let reply: [i64; 5] = throttle(1).query_async(&mut connection).await.unwrap();
        assert_eq!(reply, [0, 3, 2, -1, 3600]);
        let mut burst = redis::pipe();
        for _ in 0..3 {
            burst.add_command(throttle(1));
        }
        let replies: Vec<[i64; 5]> = burst.query_async(&mut connection).await.unwrap();
        assert_eq!(replies.map_left(), [1, 0, 0]);
        let mut transaction = redis::pipe();
        transaction.atomic().add_command(throttle(-2)).add_command(throttle(1));
        let replies: Vec<[i64; 5]> = transaction.query_async(&mut connection).await.unwrap();
        assert_eq!(replies.map_left(), [2, 1]);
        let error = redis::cmd("FROB").query_async::<()>(&mut connection).await.unwrap_err();
        assert!(error.to_string().contains("unknown command 'FROB'"), "{error}");
    }
}

/// The remaining units of several replies.
trait Left {
    fn map_left(&self) -> Vec<i64>;
}

impl Left for Vec<[i64; 5]> {
    fn map_left(&self) -> Vec<i64> {
        self.iter().map(|reply| reply[2]).collect()
    }
}
