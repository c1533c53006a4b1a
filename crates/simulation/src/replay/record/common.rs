//! `CLIENT IDENT USER [TIME] "REQUEST" STATUS BYTES`, and in the combined format `"REFERER" "USER-AGENT"` after it.

use std::borrow::Cow;

use super::{LineError, Record, client, request, time};

pub(super) fn read(line: &str, with_headers: bool) -> Result<Record<'_>, LineError> {
    let (address, rest) = line.split_once(' ').ok_or(LineError::Missing("client"))?;
    let (_, rest) = rest.split_once('[').ok_or(LineError::Missing("time in brackets"))?;
    let (stamp, rest) = rest.split_once(']').ok_or(LineError::Missing("time in brackets"))?;
    let (asked, rest) = quoted(rest).ok_or(LineError::Missing("request in quotes"))?;
    let (method, target) = request(asked)?;
    let mut headers = Vec::new();
    if let Some((referer, rest)) = quoted(rest).filter(|_| with_headers) {
        headers.extend(header("referer", referer));
        headers.extend(quoted(rest).and_then(|(agent, _)| header("user-agent", agent)));
    }
    Ok(Record {
        at: time::common(stamp)?,
        client: client(address)?,
        method: Cow::Borrowed(method),
        target: plain(target),
        host: Cow::Borrowed(""),
        headers,
    })
}

fn header<'a>(name: &'static str, value: &'a str) -> Option<(Cow<'a, str>, Cow<'a, str>)> {
    (value != "-").then(|| (Cow::Borrowed(name), plain(value)))
}

/// What stands in the next quotes, and what comes after them. Servers write a quote within as `\"` or `\x22`.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, inside) = text.split_once('"')?;
    let mut escaped = false;
    let end = inside.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((&inside[..end], &inside[end + 1..]))
}

/// Removes the backslashes before quotes and backslashes; other escapes stay.
fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\\') {
        Cow::Owned(text.replace("\\\"", "\"").replace("\\\\", "\\"))
    } else {
        Cow::Borrowed(text)
    }
}
