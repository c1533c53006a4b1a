//! The lines of a log, one at a time and within bounds.

use std::io::{self, BufRead, BufReader, Read};

use super::record::LineError;

/// Longer than any request line that a server takes, with all that a log adds to it.
const LINE_MAX: usize = 64 * 1024;
/// Few enough reads for half a million lines per second.
const BUFFER: usize = 256 * 1024;

pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// How much has been read.
    pub(super) bytes: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER, reader), line: Vec::new(), bytes: 0 }
    }

    /// The next line without its end; `None` at the end of the log. A line that is too long is skipped.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<&[u8], LineError>>> {
        if self.part()? == 0 {
            return Ok(None);
        }
        let mut is_long = false;
        while self.line.last() != Some(&b'\n') && self.line.len() > LINE_MAX {
            is_long = true;
            if self.part()? == 0 {
                break;
            }
        }
        Ok(Some(if is_long { Err(LineError::TooLong) } else { Ok(self.line.trim_ascii_end()) }))
    }

    /// Reads up to the end of the line, or as much as fits.
    fn part(&mut self) -> io::Result<usize> {
        self.line.clear();
        let most = LINE_MAX as u64 + 1;
        let read = (&mut self.reader).take(most).read_until(b'\n', &mut self.line)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            found.push(line.ok().map(<[u8]>::to_vec));
        }
        assert_eq!(lines.bytes, text.len() as u64);
        found
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_whole() {
        let long = "x".repeat(3 * LINE_MAX);
        let just = "y".repeat(LINE_MAX);
        let lines = read(format!("a\n{long}\r\nb\r\n\n{just}\nc").as_bytes());
        let some = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(lines, [some("a"), None, some("b"), some(""), some(&just), some("c")]);
        assert_eq!(read(long.as_bytes()), [None]);
        assert_eq!(read(b""), []);
    }
}
