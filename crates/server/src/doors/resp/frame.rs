//! Finds commands in bytes, in place. A command is an array of bulk strings, or a line typed by hand.
//!
//! Nothing is allocated, whatever length is claimed: arguments are places in the buffer, and a claim that could never
//! fit is refused before its bytes come.

use super::number;

/// The most that one command can have in all. A key is a few dozen bytes, and so is everything else.
pub(super) const FRAME_BYTES_MAX: usize = 64 << 10;
/// The most arguments of a command, its name included.
pub(super) const ARGUMENTS_MAX: usize = 64;
/// The longest line that holds a length: as many digits as make sense, and a few more.
const LENGTH_BYTES_MAX: usize = 32;

/// Bytes that are no command, and never will be: what is wrong with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Broken(pub(super) String);

/// Room for the arguments of some commands: sixteen of the usual ones, and then the longest.
const SPANS: usize = 16 * 6 + ARGUMENTS_MAX;

/// Where the arguments of some commands lie. Kept from burst to burst, so that it is only made once.
#[derive(Debug)]
pub(super) struct Places {
    spans: [(u32, u32); SPANS],
    /// Where those of the command that is being read begin, and how many there are.
    first: usize,
    count: usize,
}

/// Which places are those of one command.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Kept {
    first: usize,
    count: usize,
}

impl Places {
    pub(super) const fn new() -> Self {
        Self { spans: [(0, 0); SPANS], first: 0, count: 0 }
    }

    /// Forgets all commands.
    pub(super) fn clear(&mut self) {
        (self.first, self.count) = (0, 0);
    }

    /// Whether another command fits, however many arguments it has.
    pub(super) const fn has_room(&self) -> bool {
        self.first + ARGUMENTS_MAX <= SPANS
    }

    /// Keeps the command that was read, and makes ready for the next.
    pub(super) fn keep(&mut self) -> Kept {
        let kept = Kept { first: self.first, count: self.count };
        (self.first, self.count) = (self.first + self.count, 0);
        kept
    }

    /// One more argument, from and to its offsets in the frame.
    #[expect(clippy::cast_possible_truncation, reason = "a frame is far below 4 GiB")]
    pub(super) fn add(&mut self, from: usize, to: usize) -> Result<(), Broken> {
        let room = self.count < ARGUMENTS_MAX;
        let Some(span) = self.spans.get_mut(self.first + self.count).filter(|_| room) else {
            return broken(format!("more than {ARGUMENTS_MAX} arguments"));
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
    /// A command that was kept, in the bytes that it was found in.
    pub(super) fn new(bytes: &'a [u8], places: &'a Places, kept: Kept) -> Self {
        let spans = places.spans.get(kept.first..kept.first + kept.count).unwrap_or_default();
        Self { bytes, spans }
    }

    /// All of it, as it was sent.
    pub(super) const fn frame(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many arguments there are, the name included.
    pub(super) const fn len(&self) -> usize {
        self.spans.len()
    }

    /// The argument at `index`, of which 0 is the name; empty where there is none.
    #[inline]
    pub(super) fn argument(&self, index: usize) -> &'a [u8] {
        let span = self.spans.get(index);
        span.and_then(|(from, to)| self.bytes.get(*from as usize..*to as usize)).unwrap_or_default()
    }

    /// Whether the argument at `index` is this word, in whatever case.
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.argument(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// The first command in `bytes`: how many of them it takes. `None` if it has not come whole yet. One of no arguments
/// asks for nothing, and gets no answer.
pub(super) fn next(bytes: &[u8], places: &mut Places) -> Result<Option<usize>, Broken> {
    places.count = 0;
    let found = match bytes.first() {
        None => return Ok(None),
        Some(b'*') => array(bytes, places)?,
        Some(_) => line(bytes, places)?,
    };
    if found.is_none() && bytes.len() >= FRAME_BYTES_MAX {
        return too_big();
    }
    Ok(found)
}

fn array(bytes: &[u8], places: &mut Places) -> Result<Option<usize>, Broken> {
    let Some((count, mut at)) = length(bytes, 1, "multibulk length")? else { return Ok(None) };
    let count = match usize::try_from(count) {
        Ok(count) if count <= ARGUMENTS_MAX => count,
        // An array that is not there. Redis skips it, too.
        Err(_) if count == -1 => 0,
        _ => return broken(format!("invalid multibulk length: expected at most {ARGUMENTS_MAX}")),
    };
    for _ in 0..count {
        match bytes.get(at) {
            None => return Ok(None),
            Some(b'$') => {}
            Some(other) => {
                return broken(format!("expected '$', got '{}'", other.escape_ascii()));
            }
        }
        let Some((len, from)) = length(bytes, at + 1, "bulk length")? else { return Ok(None) };
        let Ok(len) = usize::try_from(len) else {
            return broken("invalid bulk length: expected 0 or more".to_owned());
        };
        if len > FRAME_BYTES_MAX || from + len + 2 > FRAME_BYTES_MAX {
            return too_big();
        }
        let to = from + len;
        match bytes.get(to..to + 2) {
            None => return Ok(None),
            Some(b"\r\n") => places.add(from, to)?,
            Some(_) => return broken(format!("expected CRLF after a bulk of {len} bytes")),
        }
        at = to + 2;
    }
    Ok(Some(at))
}

/// The number on the line that begins at `from`, and where the next line begins.
#[inline]
fn length(bytes: &[u8], from: usize, what: &str) -> Result<Option<(i64, usize)>, Broken> {
    let line = bytes.get(from..).unwrap_or_default();
    let end = line.iter().take(LENGTH_BYTES_MAX).position(|byte| *byte == b'\r');
    let Some(end) = end else {
        if line.len() >= LENGTH_BYTES_MAX {
            return broken(format!("invalid {what}: expected a number and CRLF"));
        }
        return Ok(None);
    };
    match line.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return broken(format!("invalid {what}: expected a number and CRLF")),
    }
    match number::whole(&line[..end]) {
        Some(number) => Ok(Some((number, from + end + 2))),
        None => broken(format!("invalid {what}: `{}` is no number", line[..end].escape_ascii())),
    }
}

pub(super) fn broken<T>(what: String) -> Result<T, Broken> {
    Err(Broken(what))
}

fn too_big<T>() -> Result<T, Broken> {
    broken(format!("a command is larger than {FRAME_BYTES_MAX} bytes"))
}

// Commands as people type them: words on a line, with quotes around those that hold spaces.

/// The words of the first line: how many bytes it takes. `None` if it has no end yet.
fn line(bytes: &[u8], places: &mut Places) -> Result<Option<usize>, Broken> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let mut at = 0;
    while let Some(skipped) = line[at..].iter().position(|byte| !byte.is_ascii_whitespace()) {
        at = word(line, at + skipped, places)?;
    }
    refuse_http(&line[..line.len().min(16)])?;
    Ok(Some(end + 1))
}

/// Adds the word at `from`, and answers where it ends.
fn word(line: &[u8], from: usize, places: &mut Places) -> Result<usize, Broken> {
    let quote = line[from];
    if !matches!(quote, b'"' | b'\'') {
        let len = line[from..].iter().position(u8::is_ascii_whitespace);
        let to = len.map_or(line.len(), |len| from + len);
        places.add(from, to)?;
        return Ok(to);
    }
    let inner = &line[from + 1..];
    let len = inner.iter().position(|byte| *byte == quote || *byte == b'\\');
    let Some(len) = len.filter(|len| inner[*len] == quote) else {
        // With an escape the word would not be the bytes that lie here.
        return broken("unbalanced quotes in request, or an escape: send an array".to_owned());
    };
    let to = from + 1 + len;
    if line.get(to + 1).is_some_and(|byte| !byte.is_ascii_whitespace()) {
        return broken("unbalanced quotes in request".to_owned());
    }
    places.add(from + 1, to)?;
    Ok(to + 1)
}

/// A page in a browser on this machine may post here, and its body would be lines like any other.
fn refuse_http(line: &[u8]) -> Result<(), Broken> {
    let begins =
        |word: &[u8]| line.get(..word.len()).is_some_and(|got| got.eq_ignore_ascii_case(word));
    if [&b"POST "[..], b"GET ", b"PUT ", b"Host:"].into_iter().any(begins) {
        return broken("this is no HTTP server".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
