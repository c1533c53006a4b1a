//! Parses commands in place. A command is an array of bulk strings, or a line typed by hand.
//!
//! Hand-written because a RESP library builds a value for each argument. This parser allocates nothing, whatever length
//! is claimed: arguments are positions in the read buffer, and a length that can never fit is refused before its bytes
//! arrive. 1.33 × redis-protocol at pipeline 64: docs/benchmarks.md, "Every door of the server".

use std::ops::RangeInclusive;

use super::number;

/// The maximum size of one command. A key is usually a few dozen bytes.
pub(super) const FRAME_BYTES_MAX: usize = 64 << 10;
/// Maximum number of arguments, including the name.
pub(super) const ARGUMENTS_MAX: usize = 64;
/// The longest line that holds a length: more digits than a 64-bit number has.
const LENGTH_BYTES_MAX: usize = 32;

/// Input that can never become a command, with the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ProtocolError(pub(super) String);

/// Room for the arguments of sixteen usual commands, and the longest one.
const SPANS: usize = 16 * 6 + ARGUMENTS_MAX;

/// Positions of the arguments of the parsed commands.
#[derive(Debug)]
pub(super) struct ArgumentSpans {
    all: [(u32, u32); SPANS],
    /// Start and number of the arguments of the command that is being parsed.
    first: usize,
    count: usize,
}

/// The arguments of one command.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct ArgumentRange {
    first: usize,
    count: usize,
}

impl ArgumentSpans {
    pub(super) const fn new() -> Self {
        Self { all: [(0, 0); SPANS], first: 0, count: 0 }
    }

    pub(super) fn clear(&mut self) {
        (self.first, self.count) = (0, 0);
    }

    /// Whether another command fits, with any number of arguments.
    pub(super) const fn has_room(&self) -> bool {
        self.first + ARGUMENTS_MAX <= SPANS
    }

    /// Ends the parsed command and starts the next.
    pub(super) fn finish_command(&mut self) -> ArgumentRange {
        let range = ArgumentRange { first: self.first, count: self.count };
        (self.first, self.count) = (self.first + self.count, 0);
        range
    }

    /// Adds an argument by its offsets in the frame.
    #[expect(clippy::cast_possible_truncation, reason = "a frame is far below 4 GiB")]
    pub(super) fn add(&mut self, from: usize, to: usize) -> Result<(), ProtocolError> {
        let room = self.count < ARGUMENTS_MAX;
        let Some(span) = self.all.get_mut(self.first + self.count).filter(|_| room) else {
            return protocol_error(format!("more than {ARGUMENTS_MAX} arguments"));
        };
        *span = (from as u32, to as u32);
        self.count += 1;
        Ok(())
    }
}

/// A command: its name and its arguments, borrowed from the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command<'a> {
    bytes: &'a [u8],
    spans: &'a [(u32, u32)],
}

impl<'a> Command<'a> {
    /// `bytes` are those that the command was parsed from.
    pub(super) fn new(bytes: &'a [u8], spans: &'a ArgumentSpans, range: ArgumentRange) -> Self {
        let spans = spans.all.get(range.first..range.first + range.count).unwrap_or_default();
        Self { bytes, spans }
    }

    /// The whole command as it was sent.
    pub(super) const fn frame(&self) -> &'a [u8] {
        self.bytes
    }

    /// The number of arguments, including the name.
    pub(super) const fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index`, 0 for the name; empty if it is missing.
    #[inline]
    pub(super) fn argument(&self, index: usize) -> &'a [u8] {
        let span = self.spans.get(index);
        span.and_then(|(from, to)| self.bytes.get(*from as usize..*to as usize)).unwrap_or_default()
    }

    /// The bytes of several arguments, with what is between them; empty if one is missing. No other arguments have them.
    #[inline]
    pub(super) fn text(&self, range: RangeInclusive<usize>) -> &'a [u8] {
        match (self.spans.get(*range.start()), self.spans.get(*range.end())) {
            (Some((from, _)), Some((_, to))) => {
                self.bytes.get(*from as usize..*to as usize).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// Compares an argument with a word, ignoring case.
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.argument(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// Parses the first command in `bytes` and returns its length, or `None` if it is incomplete. A command without
/// arguments gets no reply.
pub(super) fn next(
    bytes: &[u8],
    spans: &mut ArgumentSpans,
) -> Result<Option<usize>, ProtocolError> {
    spans.count = 0;
    let found = match bytes.first() {
        None => return Ok(None),
        Some(b'*') => array(bytes, spans)?,
        Some(_) => line(bytes, spans)?,
    };
    if found.is_none() && bytes.len() >= FRAME_BYTES_MAX {
        return too_big();
    }
    Ok(found)
}

fn array(bytes: &[u8], spans: &mut ArgumentSpans) -> Result<Option<usize>, ProtocolError> {
    let Some((count, mut at)) = array_length(bytes)? else { return Ok(None) };
    for _ in 0..count {
        let Some((len, from)) = bulk_length(bytes, at)? else { return Ok(None) };
        if from + len + 2 > FRAME_BYTES_MAX {
            return too_big();
        }
        let to = from + len;
        match bytes.get(to..to + 2) {
            None => return Ok(None),
            Some(b"\r\n") => spans.add(from, to)?,
            Some(_) => return protocol_error(format!("expected CRLF after a bulk of {len} bytes")),
        }
        at = to + 2;
    }
    Ok(Some(at))
}

/// The number of arguments, and where the first begins.
#[inline]
fn array_length(bytes: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
    match short_length(bytes, 0, b'*') {
        Some(short) if short.0 <= ARGUMENTS_MAX => Ok(Some(short)),
        _ => any_array_length(bytes),
    }
}

#[inline(never)]
fn any_array_length(bytes: &[u8]) -> Result<Option<(usize, usize)>, ProtocolError> {
    let Some((count, from)) = length(bytes, 1, "multibulk length")? else { return Ok(None) };
    match usize::try_from(count) {
        Ok(count) if count <= ARGUMENTS_MAX => Ok(Some((count, from))),
        // A null array. Redis skips it as well.
        Err(_) if count == -1 => Ok(Some((0, from))),
        _ => protocol_error(format!("invalid multibulk length: expected at most {ARGUMENTS_MAX}")),
    }
}

/// The length of an argument, and where it begins.
#[inline]
fn bulk_length(bytes: &[u8], at: usize) -> Result<Option<(usize, usize)>, ProtocolError> {
    match short_length(bytes, at, b'$') {
        Some(short) => Ok(Some(short)),
        None => any_bulk_length(bytes, at),
    }
}

#[inline(never)]
fn any_bulk_length(bytes: &[u8], at: usize) -> Result<Option<(usize, usize)>, ProtocolError> {
    match bytes.get(at) {
        None => return Ok(None),
        Some(b'$') => {}
        Some(other) => {
            return protocol_error(format!("expected '$', got '{}'", other.escape_ascii()));
        }
    }
    let Some((len, from)) = length(bytes, at + 1, "bulk length")? else { return Ok(None) };
    match usize::try_from(len) {
        Ok(len) if len > FRAME_BYTES_MAX => too_big(),
        Ok(len) => Ok(Some((len, from))),
        Err(_) => protocol_error("invalid bulk length: expected 0 or more".to_owned()),
    }
}

/// A length of one or two digits behind its mark, which nearly all have, and where the next line begins.
#[inline]
fn short_length(bytes: &[u8], at: usize, mark: u8) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    match *bytes.get(at..at + 5)? {
        [first, ..] if first != mark => None,
        [_, ones @ b'0'..=b'9', b'\r', b'\n', _] => Some((digit(ones), at + 4)),
        [_, tens @ b'0'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n'] => {
            Some((digit(tens) * 10 + digit(ones), at + 5))
        }
        _ => None,
    }
}

/// Parses the number on the line that begins at `from`. Returns it and the start of the next line.
fn length(bytes: &[u8], from: usize, what: &str) -> Result<Option<(i64, usize)>, ProtocolError> {
    let line = bytes.get(from..).unwrap_or_default();
    let end = line.iter().take(LENGTH_BYTES_MAX).position(|byte| *byte == b'\r');
    let Some(end) = end else {
        if line.len() >= LENGTH_BYTES_MAX {
            return protocol_error(format!("invalid {what}: expected a number and CRLF"));
        }
        return Ok(None);
    };
    match line.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return protocol_error(format!("invalid {what}: expected a number and CRLF")),
    }
    match number::parse(&line[..end]) {
        Some(number) => Ok(Some((number, from + end + 2))),
        None => protocol_error(format!(
            "invalid {what}: `{}` is not a number",
            line[..end].escape_ascii()
        )),
    }
}

pub(super) fn protocol_error<T>(what: String) -> Result<T, ProtocolError> {
    Err(ProtocolError(what))
}

fn too_big<T>() -> Result<T, ProtocolError> {
    protocol_error(format!("a command is larger than {FRAME_BYTES_MAX} bytes"))
}

// Inline commands: words on a line, with quotes around those that contain spaces.

/// Parses the words of the first line and returns its length, or `None` if it is incomplete.
fn line(bytes: &[u8], spans: &mut ArgumentSpans) -> Result<Option<usize>, ProtocolError> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let mut at = 0;
    while let Some(skipped) = line[at..].iter().position(|byte| !byte.is_ascii_whitespace()) {
        at = word(line, at + skipped, spans)?;
    }
    refuse_http(&line[..line.len().min(16)])?;
    Ok(Some(end + 1))
}

/// Adds the word at `from` and returns where it ends.
fn word(line: &[u8], from: usize, spans: &mut ArgumentSpans) -> Result<usize, ProtocolError> {
    let quote = line[from];
    if !matches!(quote, b'"' | b'\'') {
        let len = line[from..].iter().position(u8::is_ascii_whitespace);
        let to = len.map_or(line.len(), |len| from + len);
        spans.add(from, to)?;
        return Ok(to);
    }
    let inner = &line[from + 1..];
    let len = inner.iter().position(|byte| *byte == quote || *byte == b'\\');
    let Some(len) = len.filter(|len| inner[*len] == quote) else {
        // An escape would need a copy: the word would differ from the bytes in the buffer.
        return protocol_error(
            "unbalanced quotes in request, or an escape: send an array".to_owned(),
        );
    };
    let to = from + 1 + len;
    if line.get(to + 1).is_some_and(|byte| !byte.is_ascii_whitespace()) {
        return protocol_error("unbalanced quotes in request".to_owned());
    }
    spans.add(from + 1, to)?;
    Ok(to + 1)
}

/// A web page in a browser on this machine can send a POST request here, and its body would be parsed as inline
/// commands.
fn refuse_http(line: &[u8]) -> Result<(), ProtocolError> {
    let begins =
        |word: &[u8]| line.get(..word.len()).is_some_and(|got| got.eq_ignore_ascii_case(word));
    if [&b"POST "[..], b"GET ", b"PUT ", b"Host:"].into_iter().any(begins) {
        return protocol_error("this is not an HTTP server".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
