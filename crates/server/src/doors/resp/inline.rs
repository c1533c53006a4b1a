//! Commands as people type them: words on a line, with quotes around those that hold spaces.

use super::frame::{Broken, Places, broken};

/// The words of the first line: how many bytes it takes. `None` if it has no end yet.
pub(super) fn line(bytes: &[u8], places: &mut Places) -> Result<Option<usize>, Broken> {
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
