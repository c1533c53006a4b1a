//! The PROXY protocol, versions 1 and 2: a TCP load balancer sends the address of the client first.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tokio::io::{AsyncRead, AsyncReadExt};

use tidegate_request::Peer;

/// The signature of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// A line of version 1, with its line end.
const LINE_BYTES_MAX: usize = 107;
/// Everything behind the fixed part of version 2.
const REST_BYTES_MAX: usize = 4096;

/// Reads the header and not one byte more. Refuses peers that are not trusted; Unix sockets are.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    peer: Peer,
    trusts: &(dyn Fn(IpAddr) -> bool + Send + Sync),
) -> io::Result<Peer> {
    if let Peer::Ip(ip) = peer
        && !trusts(ip)
    {
        return Err(bad("PROXY protocol from an untrusted peer"));
    }
    Ok(match header(stream).await? {
        // Not the load balancer itself, which may be on this machine and trusted.
        Source::Unknown => Peer::Unknown,
        Source::Client(ip) => Peer::Ip(ip.to_canonical()),
    })
}

/// The address in a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// None: the proxy's own connection, or a client without an IP address.
    Unknown,
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
    // Byte by byte, because the bytes after the line belong to the door.
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
        ["UNKNOWN", ..] => Some(Source::Unknown),
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
        // A health check of the proxy, a Unix socket, or an unknown family.
        (0x20, _) | (0x21, 0x00 | 0x31 | 0x32) => Some(Source::Unknown),
        _ => None,
    }
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests;
