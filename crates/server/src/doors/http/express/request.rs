//! Finds a check at the beginning of what was read, if there is nothing about it that hyper should see to.

use httparse::{EMPTY_HEADER, Header, Status, parse_headers};

const LINE: &[u8] = b"POST /v1/check HTTP/1.1\r\n";
/// More headers than that are unusual.
const HEADERS_MAX: usize = 24;
/// What makes a difference to how a request is read or answered. `traceparent` is there for the span that it begins.
const SEEN_TO_ELSEWHERE: [&str; 6] =
    ["transfer-encoding", "expect", "upgrade", "te", "trailer", "traceparent"];

/// A check, as it was read.
#[derive(PartialEq, Debug)]
pub(super) struct Check<'a> {
    pub(super) body: &'a [u8],
    /// How much it was, all in all.
    pub(super) length: usize,
}

/// The check that `input` begins with, whole and plain.
pub(super) fn check_of(input: &[u8]) -> Option<Check<'_>> {
    let rest = input.strip_prefix(LINE)?;
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let Ok(Status::Complete((head, headers))) = parse_headers(rest, &mut headers) else {
        return None;
    };
    let end = head + body_length(headers)?;
    let body = rest.get(head..end)?;
    Some(Check { body, length: LINE.len() + end })
}

/// How long the body is, by the only header that may say so, if no other has a say.
fn body_length(headers: &[Header<'_>]) -> Option<usize> {
    let mut length = None;
    for Header { name, value } in headers {
        if name.eq_ignore_ascii_case("content-length") {
            let known = length.replace(number(value)?);
            if known.is_some() {
                return None;
            }
        } else if name.eq_ignore_ascii_case("connection") {
            value.eq_ignore_ascii_case(b"keep-alive").then_some(())?;
        } else if SEEN_TO_ELSEWHERE.iter().any(|other| name.eq_ignore_ascii_case(other)) {
            return None;
        }
    }
    length
}

/// Digits and nothing else, and few of them: nothing overflows.
fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > 5 {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + usize::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(headers: &str, body: &str) -> String {
        format!("POST /v1/check HTTP/1.1\r\n{headers}\r\n{body}")
    }

    #[test]
    fn a_plain_check_is_answered_here_and_anything_else_is_not() {
        for (headers, body, expected) in [
            ("Content-Length: 2\r\n", "{}", Some("{}")),
            ("host: a\r\ncontent-length: 2\r\nconnection: Keep-Alive\r\n", "{}more", Some("{}")),
            ("content-length: 0\r\n", "", Some("")),
            ("content-length: 3\r\n", "{}", None), // not all there
            ("host: a\r\n", "", None),
            ("content-length: 2\r\ncontent-length: 2\r\n", "{}", None),
            ("content-length: 2, 2\r\n", "{}", None),
            ("content-length: +2\r\n", "{}", None),
            ("content-length: -2\r\n", "{}", None),
            ("content-length: \r\n", "{}", None),
            ("content-length: 99999999999999999999\r\n", "{}", None),
            ("content-length: 2\r\ntransfer-encoding: chunked\r\n", "{}", None),
            ("content-length: 2\r\nTransfer-Encoding: identity\r\n", "{}", None),
            ("content-length : 2\r\n", "{}", None),
            ("content-length: 2\r\n folded: 1\r\n", "{}", None),
            ("content-length: 2\r\nconnection: close\r\n", "{}", None),
            ("content-length: 2\r\nconnection: keep-alive, te\r\n", "{}", None),
            ("content-length: 2\r\nexpect: 100-continue\r\n", "{}", None),
            ("content-length: 2\r\nupgrade: h2c\r\n", "{}", None),
            ("content-length: 2\r\ntraceparent: 00-1-2-01\r\n", "{}", None),
        ] {
            let request = request(headers, body);
            let found = check_of(request.as_bytes());
            assert_eq!(found.map(|it| it.body), expected.map(str::as_bytes), "{request:?}");
        }
        for line in
            ["POST /v1/check HTTP/1.0", "POST /v1/check?a HTTP/1.1", "GET /v1/check HTTP/1.1"]
        {
            let request = format!("{line}\r\ncontent-length: 2\r\n\r\n{{}}");
            assert_eq!(check_of(request.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn a_check_that_was_cut_off_is_none() {
        let whole = request("host: a\r\ncontent-length: 2\r\n", "{}");
        for end in 0..whole.len() {
            assert_eq!(check_of(&whole.as_bytes()[..end]), None, "{end}");
        }
        assert_eq!(check_of(whole.as_bytes()).map(|it| it.length), Some(whole.len()));
    }

    proptest! {
        #[test]
        fn whatever_is_sent_is_looked_at_and_no_more(bytes in any::<Vec<u8>>()) {
            let input = [LINE, &bytes].concat();
            if let Some(check) = check_of(&input) {
                prop_assert!(check.length <= input.len() && check.body.len() < check.length);
            }
        }
    }
}
