//! One server: what it can be built with, and what can be done to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use tidegate_testkit::processes::{DEADLINE, RedisBuilder, RedisServer, Reply, wait_until};

/// What the port, not the socket, says to a line.
fn said_on_port(port: u16, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut bytes = [0; 1024];
    let length = stream.read(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).trim_end().to_owned()
}

fn is_running(pid: u32) -> bool {
    std::fs::exists(format!("/proc/{pid}")).unwrap()
}

#[test]
fn what_is_asked_for_is_configured() {
    let plain = RedisServer::builder;
    let rows: [(RedisBuilder, &str, &str); 6] = [
        (plain(), "save", ""),
        (plain(), "appendonly", "no"),
        (plain(), "bind", "127.0.0.1"),
        (plain().max_memory("2mb"), "maxmemory", "2097152"),
        (plain().max_clients(7), "maxclients", "7"),
        (plain().config("busy-reply-threshold", "50"), "busy-reply-threshold", "50"),
    ];
    for (builder, name, value) in rows {
        let said = builder.start().command(&["CONFIG", "GET", name]).text();
        assert_eq!(said.trim_end(), format!("{name}\n{value}").trim_end());
    }
}

#[test]
fn a_dropped_server_leaves_nothing_behind() {
    let server = RedisServer::start();
    let (pid, socket) = (server.pid(), server.socket());
    assert!(is_running(pid) && socket.exists());
    drop(server);
    assert!(!is_running(pid) && !socket.parent().unwrap().exists());
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = std::thread::spawn(RedisServer::start).join().unwrap();
    assert_eq!(server.command(&["PING"]).text(), "PONG");
    assert_eq!(said_on_port(server.port(), "PING"), "+PONG");
}

#[test]
fn a_killed_server_comes_back_on_the_same_port_without_its_data() {
    let server = RedisServer::start();
    let (pid, url) = (server.pid(), server.url());
    server.command(&["SET", "k", "v"]).text();
    server.kill();
    assert!(!is_running(pid));
    assert!(server.try_command(&["PING"]).is_err());
    assert!(TcpStream::connect(server.address()).is_err());
    server.restart();
    assert_ne!(server.pid(), pid);
    assert_eq!((server.url(), server.command(&["GET", "k"])), (url, Reply::Nil));
    assert_eq!(said_on_port(server.port(), "PING"), "+PONG");
}

#[test]
fn a_paused_server_accepts_and_says_nothing_until_it_is_resumed() {
    let server = RedisServer::start();
    server.pause();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    assert!(stream.read(&mut reply).is_err());
    server.resume();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn a_paused_server_can_be_dropped() {
    let server = RedisServer::start();
    let pid = server.pid();
    server.pause();
    drop(server);
    assert!(!is_running(pid));
}

#[test]
fn a_server_that_cannot_start_shows_its_log() {
    let wrong = || RedisServer::builder().config("no-such-setting", "1").start();
    let panic = std::panic::catch_unwind(wrong).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no-such-setting"), "{message}");
}

#[test]
fn a_password_is_asked_for() {
    let server =
        RedisServer::builder().password("secret").user("app", "on >other ~tg:* +@all").start();
    let port = server.port();
    assert_eq!(server.url(), format!("redis://:secret@127.0.0.1:{port}"));
    assert_eq!(server.url_as("app", "other"), format!("redis://app:other@127.0.0.1:{port}"));
    assert_eq!(server.command(&["ACL", "WHOAMI"]).text(), "default");
    assert_eq!(server.cli(&["ACL", "WHOAMI"]), "default");
    assert!(said_on_port(port, "GET k").starts_with("-NOAUTH"));
    assert_eq!(said_on_port(port, "AUTH app other"), "+OK");
    assert!(said_on_port(port, "AUTH app secret").starts_with("-WRONGPASS"));
}

/// `redis-cli` as the client: it has TLS, and is there wherever the server is.
#[test]
fn tls_is_spoken_by_those_who_trust_our_authority() {
    for (builder, needs_certificate) in
        [(RedisServer::builder().tls(), false), (RedisServer::builder().mutual_tls(), true)]
    {
        let server = builder.start();
        let files = server.tls_files();
        let says_pong = |trusts: bool, shows: bool| {
            let mut cli = Command::new("redis-cli");
            cli.args(["-h", "127.0.0.1", "-p", &server.port().to_string(), "--tls"]);
            if trusts {
                cli.arg("--cacert").arg(&files.ca);
            }
            if shows {
                cli.arg("--cert").arg(&files.client_cert).arg("--key").arg(&files.client_key);
            }
            String::from_utf8_lossy(&cli.arg("PING").output().unwrap().stdout).contains("PONG")
        };
        assert!(server.url().starts_with("rediss://127.0.0.1:"));
        assert!(says_pong(true, true));
        assert_eq!(says_pong(true, false), !needs_certificate);
        assert!(!says_pong(false, true));
    }
}

#[test]
fn a_replica_has_what_its_primary_has() {
    let primary = RedisServer::builder().password("secret").start();
    primary.command(&["SET", "k", "v"]).text();
    let replica = RedisServer::builder().replica_of(&primary).start();
    assert_eq!(replica.command(&["GET", "k"]).text(), "v");
    let refused = replica.command(&["SET", "k", "w"]);
    assert!(
        matches!(&refused, Reply::Error(error) if error.starts_with("READONLY")),
        "{refused:?}"
    );
}

#[test]
fn a_full_server_refuses_to_write() {
    let server = RedisServer::builder().max_memory("1").start();
    let refused = server.command(&["SET", "k", "v"]);
    assert!(matches!(&refused, Reply::Error(error) if error.starts_with("OOM")), "{refused:?}");
}

#[test]
fn work_costs_processor_time() {
    let server = RedisServer::start();
    let before = server.cpu_seconds();
    let work = "for i = 1, 1000000 do redis.call('PING') end";
    wait_until("processor time to be counted", DEADLINE, || {
        server.command(&["EVAL", work, "0"]).text();
        server.cpu_seconds() >= before + 0.1
    });
}

fn time_us(server: &RedisServer) -> i128 {
    let text = server.command(&["EVAL", "return redis.call('TIME')", "0"]).text();
    let (seconds, us) = text.split_once('\n').unwrap();
    seconds.parse::<i128>().unwrap() * 1_000_000 + us.parse::<i128>().unwrap()
}

#[test]
fn the_clock_of_a_server_can_be_shifted_while_it_runs() {
    let (server, witness) =
        (RedisServer::builder().shiftable_clock().start(), RedisServer::start());
    let hour_us = 3_600_000_000;
    for shift_us in [0, hour_us, -hour_us, 999_999, -999_999, 25 * hour_us, 0] {
        server.shift_clock_us(shift_us);
        let before = time_us(&witness);
        let shifted = time_us(&server) - i128::from(shift_us);
        let after = time_us(&witness);
        assert!((before..=after).contains(&shifted), "{shift_us}: {before} {shifted} {after}");
    }
    server.command(&["SET", "k", "v", "EX", "3600"]).text();
    server.shift_clock_us(2 * hour_us);
    assert_eq!(server.command(&["GET", "k"]), Reply::Nil);
}
