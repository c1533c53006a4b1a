use proptest::prelude::*;

use tidegate::Cidr;

use super::*;

const PROXY: &str = "10.0.0.1";

/// The peer, and the bytes left for the door.
fn read(peer: &str, sent: &[u8]) -> Result<(Peer, Vec<u8>), String> {
    let trusted: Cidr = "10.0.0.0/8".parse().unwrap();
    let peer = Peer::Ip(peer.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut rest = sent;
        let read = super::read(&mut rest, peer, &|ip| trusted.contains(ip)).await;
        read.map(|peer| (peer, rest.to_vec())).map_err(|error| error.to_string())
    })
}

fn version_2_bytes(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [&SIGNATURE[..], &[command, family], &length, rest].concat()
}

fn check(sent: &[u8], expected: &str) {
    let follows = [sent, b"GET /"].concat();
    let expected = expected.parse().map_or(Peer::Unknown, Peer::Ip);
    let shown = String::from_utf8_lossy(sent);
    assert_eq!(read(PROXY, &follows), Ok((expected, b"GET /".to_vec())), "{shown}");
}

#[test]
fn the_forwarded_address_is_the_peer() {
    check(b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n", "192.0.2.7");
    check(b"PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n", "2001:db8::7");
    check(b"PROXY TCP6 ::ffff:192.0.2.7 ::1 4711 443\r\n", "192.0.2.7");
    let four = [192, 0, 2, 7, 198, 51, 100, 1, 0x12, 0x67, 1, 187];
    check(&version_2_bytes(0x21, 0x11, &four), "192.0.2.7");
    check(&version_2_bytes(0x21, 0x11, &[&four[..], &[4, 0, 1, 0]].concat()), "192.0.2.7");
    let six = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 20]].concat();
    check(&version_2_bytes(0x21, 0x21, &six), "::1");
}

#[test]
fn without_an_address_the_peer_is_nobody() {
    check(b"PROXY UNKNOWN\r\n", "nobody");
    check(b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "nobody");
    check(&version_2_bytes(0x20, 0x00, &[]), "nobody");
    check(&version_2_bytes(0x20, 0x11, &[127, 0, 0, 1, 127, 0, 0, 1, 0, 1, 0, 2]), "nobody");
    check(&version_2_bytes(0x21, 0x00, &[]), "nobody");
    check(&version_2_bytes(0x21, 0x31, &[0; 216]), "nobody");
}

#[test]
fn untrusted_peers_are_refused() {
    let line = b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";
    assert!(read("198.51.100.9", line).unwrap_err().contains("untrusted peer"));
}

#[test]
fn malformed_headers_are_refused() {
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(200));
    for sent in [
        &b""[..],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PROXY TCP4 192.0.2.7\r\n       ",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 443",
        b"PROXY TCP4 192.0.2.7 198.51.100.1 99999 443\r\n",
        b"PROXY TCP4 2001:db8::7 198.51.100.1 4711 443\r\n",
        b"PROXY TCP6 192.0.2.7 198.51.100.1 4711 443\r\n",
        b"PROXY UDP4 192.0.2.7 198.51.100.1 4711 443\r\n",
        b"PROXY TCP4  192.0.2.7 198.51.100.1 4711 443\r\n",
        long.as_bytes(),
        &version_2_bytes(0x11, 0x11, &[0; 12]),
        &version_2_bytes(0x22, 0x11, &[0; 12]),
        &version_2_bytes(0x21, 0x11, &[0; 11]),
        &version_2_bytes(0x21, 0x21, &[0; 35]),
        &version_2_bytes(0x21, 0x41, &[0; 36]),
        &version_2_bytes(0x21, 0x11, &[0; 5000]),
    ] {
        assert!(read(PROXY, sent).is_err(), "{}", String::from_utf8_lossy(sent));
    }
}

proptest! {
    #[test]
    fn no_input_panics_or_reads_too_far(
        start in prop_oneof![Just(&b"PROXY TCP4 "[..]), Just(&SIGNATURE[..]), Just(&b""[..])],
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let sent = [start, &rest].concat();
        if let Ok((_, left)) = read(PROXY, &sent) {
            prop_assert!(sent.ends_with(&left));
        }
    }

    #[test]
    fn both_versions_give_the_same_peer(ip in any::<[u8; 4]>(), port in any::<u16>()) {
        let from = Ipv4Addr::from(ip);
        let line = format!("PROXY TCP4 {from} 198.51.100.1 {port} 443\r\n");
        let bytes = [&ip[..], &[198, 51, 100, 1], &port.to_be_bytes(), &[1, 187]].concat();
        let (first, second) = (read(PROXY, line.as_bytes()), read(PROXY, &version_2_bytes(0x21, 0x11, &bytes)));
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(first.map(|(peer, _)| peer), Ok(Peer::Ip(from.into())));
    }
}
