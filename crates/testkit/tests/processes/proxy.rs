//! The proxy: each fault as a client and a server see it, and nothing of it afterwards.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use tokio::time::Instant;

use tidegate_testkit::processes::{DEADLINE, FaultProxy, Faults, RedisServer, Way, wait_until};

/// Long enough for bytes that are let through to come by; nothing is expected to.
const SILENCE: Duration = Duration::from_millis(50);

/// A client and a server with the proxy between them.
struct Wire {
    proxy: FaultProxy,
    listener: TcpListener,
}

impl Wire {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = FaultProxy::start(listener.local_addr().unwrap().port());
        Self { proxy, listener }
    }

    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.proxy.address()).unwrap();
        let (server, _) = self.listener.accept().unwrap();
        for stream in [&client, &server] {
            stream.set_read_timeout(Some(DEADLINE)).unwrap();
        }
        (client, server)
    }
}

fn arrives(from: &mut TcpStream, to: &mut TcpStream, sent: &[u8], wanted: &[u8]) {
    from.write_all(sent).unwrap();
    let mut bytes = vec![0; wanted.len()];
    to.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, wanted);
}

fn is_silent(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let is_silent = stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    is_silent
}

fn is_reset(mut stream: &TcpStream) -> bool {
    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

#[test]
fn bytes_that_arrive_are_those_that_were_sent_except_the_corrupted_one() {
    let short = Duration::from_millis(1);
    let rows: [(Way, &[u8]); 6] = [
        (Way::default(), b"+OK\r\n"),
        (Way::delay(short), b"+OK\r\n"),
        (Way::drip_every(short), b"+OK\r\n"),
        (Way::truncate_after_bytes(5), b"+OK\r\n"),
        (Way::corrupt_at_byte(0), b"\xd4OK\r\n"),
        (Way { drip_every: Some(short), ..Way::corrupt_at_byte(2) }, b"+O\xb4\r\n"),
    ];
    let wire = Wire::new();
    // One connection for all rows: counts begin when the fault is set.
    let (mut client, mut server) = wire.connect();
    for (way, wanted) in rows {
        wire.proxy.set(Faults::to_client(way));
        arrives(&mut server, &mut client, b"+OK\r\n", wanted);
        wire.proxy.set(Faults::to_server(way));
        arrives(&mut client, &mut server, b"+OK\r\n", wanted);
        arrives(&mut server, &mut client, b"+OK\r\n", b"+OK\r\n");
    }
}

#[test]
fn a_truncated_connection_ends_after_so_many_bytes() {
    let wire = Wire::new();
    for count in [0, 1, 4] {
        wire.proxy.set(Faults::to_client(Way::truncate_after_bytes(count)));
        let (mut client, mut server) = wire.connect();
        server.write_all(b"+OK\r\n").unwrap();
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"+OK\r\n"[..count]);
    }
}

#[test]
fn a_black_hole_holds_one_way_until_it_is_healed() {
    let wire = Wire::new();
    let (mut client, mut server) = wire.connect();
    for to_server in [true, false] {
        let (faults, from, to) = if to_server {
            (Faults::to_server(Way::blackhole()), &mut client, &mut server)
        } else {
            (Faults::to_client(Way::blackhole()), &mut server, &mut client)
        };
        wire.proxy.set(faults);
        from.write_all(b"held").unwrap();
        assert!(is_silent(to));
        arrives(to, from, b"back", b"back");
        wire.proxy.heal();
        arrives(from, to, b"", b"held");
    }
}

#[test]
fn an_end_does_not_pass_a_black_hole() {
    let wire = Wire::new();
    let (client, mut server) = wire.connect();
    wire.proxy.set(Faults::both_ways(Way::blackhole()));
    drop(client);
    assert!(is_silent(&mut server));
    wire.proxy.heal();
    assert_eq!(server.read(&mut [0]).unwrap(), 0);
}

#[test]
fn many_bytes_are_delayed_together_and_not_one_after_the_other() {
    let wire = Wire::new();
    let (mut client, mut server) = wire.connect();
    let delay = Duration::from_millis(100);
    wire.proxy.set(Faults::both_ways(Way::delay(delay)));
    let start = Instant::now();
    for _ in 0..400 {
        client.write_all(b"PING\r\n").unwrap();
    }
    server.read_exact(&mut [0; 6 * 400]).unwrap();
    // One after the other they would take twice the deadline.
    assert!((delay..DEADLINE).contains(&start.elapsed()));
}

#[test]
fn a_reset_is_a_reset_on_both_sides() {
    let wire = Wire::new();
    let (client, server) = wire.connect();
    wire.proxy.reset_connections();
    assert!(is_reset(&client) && is_reset(&server));
    let (mut client, mut server) = wire.connect();
    arrives(&mut client, &mut server, b"well", b"well");
    wire.proxy.set(Faults::reset());
    assert!(is_reset(&client) && is_reset(&server));
    let (client, server) = wire.connect();
    assert!(is_reset(&client) && is_reset(&server));
}

#[test]
fn a_refusal_leaves_what_is_open_and_ends_when_it_is_healed() {
    let wire = Wire::new();
    let (mut client, mut server) = wire.connect();
    wire.proxy.set(Faults::refuse());
    let refused = TcpStream::connect(wire.proxy.address()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    arrives(&mut client, &mut server, b"open", b"open");
    wire.proxy.heal();
    let (mut client, mut server) = wire.connect();
    arrives(&mut client, &mut server, b"new", b"new");
    assert_eq!((wire.proxy.accepted(), wire.proxy.open()), (2, 2));
    drop((client, server));
    wait_until("the place to be free again", DEADLINE, || wire.proxy.open() == 1);
}

#[test]
fn a_client_of_a_dead_server_is_reset() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    server.kill();
    assert!(is_reset(&TcpStream::connect(proxy.address()).unwrap()));
    server.restart();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn a_dropped_proxy_ends_its_connections() {
    let Wire { proxy, listener } = Wire::new();
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let _server = listener.accept().unwrap();
    drop(proxy);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}
