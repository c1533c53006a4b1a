//! The PROXY protocol, versions 1 and 2: a load balancer that speaks no HTTP says first whom it forwards for.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::io::{AsyncRead, AsyncReadExt};

use tidegate_request::Peer;

/// How version 2 begins.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// How long a line of version 1 may be, with its end.
const LINE_BYTES_MAX: usize = 107;
/// What is read and thrown away behind the addresses of version 2, at most.
const REST_BYTES_MAX: usize = 4096;

/// Reads what stands before the connection's own bytes, and not one byte more. It is believed from peers in these
/// networks, and over Unix sockets; all others are turned away.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    peer: Peer,
    trusts: &(dyn Fn(IpAddr) -> bool + Send + Sync),
) -> io::Result<Peer> {
    if let Peer::Ip(ip) = peer
        && !trusts(ip)
    {
        warn_of_stranger(ip);
        return Err(bad("the PROXY protocol is not believed from this peer"));
    }
    Ok(match header(stream).await? {
        Source::Proxy => peer,
        Source::Client(ip) => Peer::Ip(ip.to_canonical()),
    })
}

/// Says once that somebody is turned away for this: who sets a load balancer up would look for the reason in vain, and
/// who knocks at every port must not fill the log.
fn warn_of_stranger(peer: IpAddr) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Relaxed) {
        tracing::warn!(
            %peer,
            "connection refused: with `proxy_protocol` only those in client_ip.trusted_proxies may connect"
        );
    }
}

/// Whom a proxy speaks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// Itself, or somebody who has no address.
    Proxy,
    Client(IpAddr),
}

async fn header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Source> {
    // Both versions have at least 15 bytes.
    let mut start = [0; 12];
    stream.read_exact(&mut start).await?;
    if start == *SIGNATURE {
        let mut fixed = [0; 4];
        stream.read_exact(&mut fixed).await?;
        let length = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
        if length > REST_BYTES_MAX {
            return Err(bad("the PROXY header is too long"));
        }
        let mut rest = vec![0; length];
        stream.read_exact(&mut rest).await?;
        return version_2(fixed[0], fixed[1], &rest).ok_or_else(|| bad("bad PROXY header"));
    }
    if !start.starts_with(b"PROXY ") {
        return Err(bad("no PROXY header"));
    }
    let mut line = start.to_vec();
    // Byte by byte: whatever follows the line is not ours to take.
    while !line.ends_with(b"\r\n") {
        if line.len() == LINE_BYTES_MAX {
            return Err(bad("the PROXY line is too long"));
        }
        line.push(stream.read_u8().await?);
    }
    version_1(&line).ok_or_else(|| bad("bad PROXY line"))
}

/// Reads `PROXY TCP4 192.0.2.7 198.51.100.1 4711 443`; `None` if it is not well formed.
fn version_1(line: &[u8]) -> Option<Source> {
    let text = str::from_utf8(line).ok()?.strip_suffix("\r\n")?.strip_prefix("PROXY ")?;
    let words: Vec<&str> = text.split(' ').collect();
    let port = |text: &str| text.parse::<u16>().is_ok();
    match *words {
        ["UNKNOWN", ..] => Some(Source::Proxy),
        ["TCP4", from, to, from_port, to_port] if port(from_port) && port(to_port) => {
            to.parse::<Ipv4Addr>().ok()?;
            Some(Source::Client(IpAddr::V4(from.parse().ok()?)))
        }
        ["TCP6", from, to, from_port, to_port] if port(from_port) && port(to_port) => {
            to.parse::<Ipv6Addr>().ok()?;
            Some(Source::Client(IpAddr::V6(from.parse().ok()?)))
        }
        _ => None,
    }
}

/// Reads version and command, family, and the addresses; `None` if they are not well formed.
fn version_2(command: u8, family: u8, rest: &[u8]) -> Option<Source> {
    match (command, family) {
        (0x21, 0x11 | 0x12) => {
            let ip: [u8; 4] = rest.get(..12)?.first_chunk().copied()?;
            Some(Source::Client(Ipv4Addr::from(ip).into()))
        }
        (0x21, 0x21 | 0x22) => {
            let ip: [u8; 16] = rest.get(..36)?.first_chunk().copied()?;
            Some(Source::Client(Ipv6Addr::from(ip).into()))
        }
        // A health check of the proxy's own; of a Unix socket, or of nothing that is known.
        (0x20, _) | (0x21, 0x00 | 0x31 | 0x32) => Some(Source::Proxy),
        _ => None,
    }
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
