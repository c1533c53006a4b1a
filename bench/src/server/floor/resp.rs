//! RESP on tokio alone: large reads, one write per read, and GCRA over a table without locks. Commands are parsed in place,
//! or by the redis-protocol crate.

use std::sync::Arc;
use std::time::Instant;

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::arrivals::Arrivals;

/// Parses the first command: its arguments and its length, or `None` if it is incomplete.
pub(super) type Parse = fn(&[u8]) -> Option<([&[u8]; 5], usize)>;

struct Floor {
    start: Instant,
    arrivals: Arrivals,
    parse: Parse,
}

pub(super) async fn serve(listener: TcpListener, parse: Parse) {
    let floor = Arc::new(Floor { start: Instant::now(), arrivals: Arrivals::new(), parse });
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(stream, floor.clone()));
    }
}

async fn connection(mut stream: TcpStream, floor: Arc<Floor>) -> Option<()> {
    let (mut bytes, mut filled) = (vec![0; 64 << 10], 0);
    let mut out = Vec::with_capacity(16 << 10);
    loop {
        filled += Some(stream.read(&mut bytes[filled..]).await.ok()?).filter(|count| *count > 0)?;
        let done = floor.answer(&bytes[..filled], &mut out);
        bytes.copy_within(done..filled, 0);
        filled -= done;
        stream.write_all(&out).await.ok()?;
        out.clear();
    }
}

impl Floor {
    /// Answers the complete commands, and returns their length.
    fn answer(&self, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let now = u64::try_from(self.start.elapsed().as_nanos()).expect("a short run");
        let mut done = 0;
        while let Some((parts, length)) = (self.parse)(&bytes[done..]) {
            done += length;
            throttle(&self.arrivals, now, parts, out);
        }
        done
    }
}

/// Decides one command with GCRA.
fn throttle(arrivals: &Arrivals, now: u64, parts: [&[u8]; 5], out: &mut Vec<u8>) {
    let [_, key, burst, units, seconds] = parts;
    let (burst, interval) = (decimal(burst) + 1, decimal(seconds) * 1_000_000_000 / decimal(units));
    let (next, room) = arrivals.take(key, now, burst, interval);
    let left = room.unwrap_or(0) / interval;
    let (limited, retry) = if room.is_some() { (0, -1) } else { (1, 1) };
    let reset = (next - now).div_ceil(1_000_000_000);
    integers([limited, burst as i64, left as i64, retry, reset as i64], out);
}

/// The digits of the numbers below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Writes an array of five integers, without the formatting of the standard library, which takes longer.
fn integers(numbers: [i64; 5], out: &mut Vec<u8>) {
    let mut text = [0; 4 + 5 * 23];
    let mut at = text.len();
    for number in numbers.into_iter().rev() {
        at -= 2;
        text[at..at + 2].copy_from_slice(b"\r\n");
        let mut rest = number.unsigned_abs();
        while rest >= 10 {
            at -= 2;
            text[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        if rest > 0 || number == 0 {
            at -= 1;
            text[at] = b'0' + rest as u8;
        }
        if number < 0 {
            at -= 1;
            text[at] = b'-';
        }
        at -= 1;
        text[at] = b':';
    }
    at -= 4;
    text[at..at + 4].copy_from_slice(b"*5\r\n");
    out.extend_from_slice(&text[at..]);
}

/// Parses with redis-protocol, without copying arguments.
pub(super) fn by_library(bytes: &[u8]) -> Option<([&[u8]; 5], usize)> {
    let (frame, length) = decode_range(bytes).expect("a command of the benchmark")?;
    let RangeFrame::Array(frames) = frame else { panic!("a command of the benchmark") };
    let mut parts = [&[][..]; 5];
    for (part, frame) in parts.iter_mut().zip(&frames) {
        let RangeFrame::BulkString((start, end)) = frame else {
            panic!("a command of the benchmark")
        };
        *part = &bytes[*start..*end];
    }
    Some((parts, length))
}

pub(super) fn in_place(bytes: &[u8]) -> Option<([&[u8]; 5], usize)> {
    let (count, mut at) = number(bytes, b'*', 0)?;
    assert_eq!(count, 5, "a command of the benchmark");
    let mut parts = [&[][..]; 5];
    for part in &mut parts {
        let (length, start) = number(bytes, b'$', at)?;
        *part = bytes.get(start..start + length)?;
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some((parts, at))
}

/// The number after its type byte, and where the next line begins.
fn number(bytes: &[u8], mark: u8, at: usize) -> Option<(usize, usize)> {
    assert_eq!(*bytes.get(at)?, mark, "a command of the benchmark");
    let end = at + bytes[at..].iter().position(|byte| *byte == b'\r')?;
    Some((usize::try_from(decimal(&bytes[at + 1..end])).expect("a short text"), end + 2))
}

fn decimal(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}
