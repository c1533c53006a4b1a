//! Encodes replies, in one buffer per pipeline.

use tidegate::{Decision, EXACT_MAX};

use super::session::Protocol;
use tidegate_core::text::printable;

/// Replies that are not written yet.
#[derive(Debug, Default)]
pub(super) struct ReplyBuffer(pub(super) Vec<u8>);

impl ReplyBuffer {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// A simple string such as `OK`, without line breaks.
    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; the first word is its kind. Client input has to be [`escaped`] first.
    pub(super) fn error(&mut self, text: &str) {
        self.line(b'-', text.as_bytes());
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        self.number(b':', number);
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len());
        self.0.extend_from_slice(bytes);
        self.0.extend_from_slice(b"\r\n");
    }

    pub(super) fn array(&mut self, len: usize) {
        self.head(b'*', len);
    }

    /// The header of a map: `pairs` follow.
    pub(super) fn map(&mut self, protocol: Protocol, pairs: usize) {
        match protocol {
            Protocol::Resp2 => self.head(b'*', pairs * 2),
            Protocol::Resp3 => self.head(b'%', pairs),
        }
    }

    pub(super) fn null(&mut self, protocol: Protocol) {
        self.0.extend_from_slice(match protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The five integers of redis-cell: limited, limit, remaining, retry after, reset after. The last two are seconds,
    /// rounded up so that a client that waits that long is not too early. Retry after is −1 if the request was allowed,
    /// or never will be.
    #[inline]
    pub(super) fn cell_reply(&mut self, decision: &Decision) {
        let retry = match decision.retry_after_us() {
            Some(us) if !decision.allowed() => seconds_up(us),
            _ => -1,
        };
        self.integers([
            i64::from(!decision.allowed()),
            count(decision.limit()),
            count(decision.remaining()),
            retry,
            seconds_up(decision.reset_after_us()),
        ]);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.0.push(kind);
        self.0.extend_from_slice(text);
        self.0.extend_from_slice(b"\r\n");
    }

    fn head(&mut self, kind: u8, len: usize) {
        self.number(kind, i64::try_from(len).unwrap_or(i64::MAX));
    }

    #[inline]
    fn number(&mut self, kind: u8, number: i64) {
        self.numbers([], kind, [number]);
    }

    /// An array of five integers, appended at once: the reply to most commands.
    #[inline]
    pub(super) fn integers(&mut self, numbers: [i64; 5]) {
        self.numbers(*b"*5\r\n", b':', numbers);
    }

    /// Lines of numbers behind a head, written where they stay: a copy of bytes that were just written one by one has to wait
    /// for them.
    #[inline]
    fn numbers<const H: usize, const N: usize>(
        &mut self,
        head: [u8; H],
        kind: u8,
        numbers: [i64; N],
    ) {
        let start = self.0.len();
        self.0.resize(start + H + N * NUMBER_BYTES, 0);
        let text = &mut self.0[start..];
        text[..H].copy_from_slice(&head);
        let mut len = H;
        for number in numbers {
            len += write_number(&mut text[len..], kind, number);
        }
        self.0.truncate(start + len);
    }
}

/// The digits of the numbers below a hundred.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0_u8;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

/// The longest number, with its type byte and CRLF.
const NUMBER_BYTES: usize = 23;

/// Writes type byte, number and CRLF, and returns how long they are. `text` has room for them.
#[inline]
fn write_number(text: &mut [u8], kind: u8, number: i64) -> usize {
    if let (Ok(digit @ 0..=9), Some(line)) = (u8::try_from(number), text.first_chunk_mut()) {
        *line = [kind, b'0' + digit, b'\r', b'\n'];
        return 4;
    }
    text[0] = kind;
    text[1] = b'-';
    let mut rest = number.unsigned_abs();
    let end = 2 + usize::from(number < 0) + rest.checked_ilog10().unwrap_or(0) as usize;
    let mut at = end;
    // Two at a time: a digit is known only after the division before it.
    while rest >= 10 {
        at -= 2;
        text[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    if rest > 0 {
        text[at - 1] = b'0' + (rest % 10) as u8;
    }
    text[end..end + 2].copy_from_slice(b"\r\n");
    end + 2
}

/// An unlimited key reports the same maximum as the other doors.
fn count(units: u64) -> i64 {
    i64::try_from(units.min(EXACT_MAX)).unwrap_or(i64::MAX)
}

fn seconds_up(us: u64) -> i64 {
    i64::try_from(us.div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

/// Client input for an error message: escaped, and cut after 64 bytes.
pub(super) fn escaped(bytes: &[u8]) -> String {
    const BYTES_MAX: usize = 64;
    match bytes.get(..BYTES_MAX) {
        Some(start) if bytes.len() > BYTES_MAX => {
            format!("{}…", printable(&String::from_utf8_lossy(start)))
        }
        _ => printable(&String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 7, -1, -9, 9, 10, -10, 99, 100, 1_000_000, -1_234_567, i64::MAX, i64::MIN]
        {
            let mut out = ReplyBuffer::default();
            out.integer(number);
            assert_eq!(out.0, format!(":{number}\r\n").as_bytes());
            out.0.clear();
            out.integers([number; 5]);
            assert_eq!(out.0, format!("*5\r\n{}", format!(":{number}\r\n").repeat(5)).as_bytes());
        }
    }

    #[test]
    fn escaped_input_stays_on_one_line() {
        assert_eq!(escaped(b"a\r\n+OK"), "a\\r\\n+OK");
        assert_eq!(escaped(b"\xff"), "\u{fffd}");
        assert_eq!(escaped(&[b'x'; 1000]).len(), 64 + "…".len());
    }
}
