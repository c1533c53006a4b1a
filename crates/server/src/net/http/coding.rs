//! Transfer codings. Only `chunked` is understood, once and last (RFC 9112, 6.1).

use http::header::{HeaderMap, TRANSFER_ENCODING};

/// Why a body cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BadCoding {
    /// A coding other than `chunked`, such as `gzip`.
    Unknown,
    /// No list of codings, or one that says `chunked` twice.
    Malformed,
}

/// Whether the body of a message can be decoded. hyper refuses requests whose last coding is not `chunked`.
pub(crate) fn check_coding(headers: &HeaderMap) -> Result<(), BadCoding> {
    // Nearly every message has none.
    if !headers.contains_key(TRANSFER_ENCODING) {
        return Ok(());
    }
    let lines = headers.get_all(TRANSFER_ENCODING).iter();
    let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let (mut chunked, mut is_known) = (0, true);
    for coding in codings.map(<[u8]>::trim_ascii) {
        match coding {
            b"" => return Err(BadCoding::Malformed),
            _ if coding.eq_ignore_ascii_case(b"chunked") => chunked += 1,
            _ => is_known = false,
        }
    }
    match (is_known, chunked) {
        (_, 2..) => Err(BadCoding::Malformed),
        (false, _) => Err(BadCoding::Unknown),
        (true, _) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_chunked_is_understood() {
        use BadCoding::{Malformed, Unknown};
        for (lines, expected) in [
            (&[][..], Ok(())),
            (&["chunked"], Ok(())),
            (&["CHUNKED"], Ok(())),
            (&["gzip, chunked"], Err(Unknown)),
            (&["gzip", "chunked"], Err(Unknown)),
            (&["identity, chunked"], Err(Unknown)),
            (&["chunked;q=1"], Err(Unknown)),
            (&["x-\u{e9}, chunked"], Err(Unknown)),
            (&["chunked, chunked"], Err(Malformed)),
            (&["chunked", "chunked"], Err(Malformed)),
            (&[", chunked"], Err(Malformed)),
            (&[""], Err(Malformed)),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(TRANSFER_ENCODING, line.parse().unwrap());
            }
            assert_eq!(check_coding(&headers), expected, "{lines:?}");
        }
    }
}
