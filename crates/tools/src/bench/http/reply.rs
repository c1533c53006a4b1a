//! A reply of HTTP/1.1, and what it decides.

use std::ops::Range;

use httparse::{EMPTY_HEADER, Header, Response};
use serde::Deserialize;

use super::super::error::{ErrorKind, RequestError};
use crate::client::problem_detail;

/// Longer replies are errors. Those of an API have a hundred bytes, pages behind a proxy have more.
pub(super) const REPLY_BYTES_MAX: usize = 1 << 20;
const HEADERS_MAX: usize = 64;
/// One of these is in every answer about a limit, unless the server is told to send none.
const LIMIT_HEADERS: [&str; 3] = ["ratelimit", "ratelimit-limit", "x-ratelimit-limit"];

/// What tells whether a request was allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Verdict {
    /// The field of a JSON object.
    Body,
    /// The status of forward-auth: 200, or a refusal.
    Auth,
    /// The status of a page: anything but a refusal or a failure.
    Page,
}

#[derive(Deserialize)]
struct Decision {
    allowed: bool,
}

/// A complete reply.
#[derive(Debug)]
pub(super) struct Reply {
    status: u16,
    /// Of a chunked reply, as it was sent.
    body: Range<usize>,
    pub(super) closes: bool,
    /// Whether it is a refusal by its status. Load that is shed may have a 503, which says when to come back.
    is_refusal: bool,
    /// Whether it is a refusal, has the headers of a limit, or for a page the `Via` of a proxy of tidegate.
    pub(super) shows_limiter: bool,
}

impl Reply {
    pub(super) fn decision(
        &self,
        bytes: &[u8],
        by: Verdict,
    ) -> Result<Result<bool, RequestError>, RequestError> {
        let body = bytes.get(self.body.clone()).unwrap_or_default();
        match by {
            Verdict::Body if self.status == 200 => {
                let decision = serde_json::from_slice(body);
                let decision: Decision = decision.map_err(|_| RequestError::bad_reply(body))?;
                return Ok(Ok(decision.allowed));
            }
            Verdict::Auth | Verdict::Page if self.is_refusal => return Ok(Ok(false)),
            Verdict::Auth if self.status == 200 => return Ok(Ok(true)),
            Verdict::Page if self.status < 500 => return Ok(Ok(true)),
            Verdict::Body | Verdict::Auth | Verdict::Page => {}
        }
        let detail = problem_detail(body).map_or_else(String::new, |detail| format!(": {detail}"));
        Ok(Err(RequestError::new(ErrorKind::Refused, format!("status {}{detail}", self.status))))
    }
}

/// A reply, once it is complete.
pub(super) fn decode(bytes: &[u8], by: Verdict) -> Result<Option<Reply>, RequestError> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    let bad = || RequestError::bad_reply(bytes);
    let parsed = response.parse(bytes).map_err(|_| bad())?;
    let httparse::Status::Complete(head) = parsed else { return Ok(None) };
    let status = response.code.unwrap_or_default();
    let header = |name: &str| value(response.headers, name);
    let is = |name, word| header(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let end = if let Some(length) = header("content-length") {
        let length: Option<usize> = length.parse().ok();
        let length = length.filter(|length| *length <= REPLY_BYTES_MAX).ok_or_else(bad)?;
        Some(head + length).filter(|end| *end <= bytes.len())
    } else if matches!(status, 204 | 304) {
        Some(head)
    } else if is("transfer-encoding", "chunked") {
        chunks_end(bytes, head).map_err(|()| bad())?
    } else {
        return Err(bad());
    };
    let is_refusal = status == 429 || (status == 503 && header("retry-after").is_some());
    let shows_limiter = match by {
        Verdict::Body => false,
        Verdict::Auth => LIMIT_HEADERS.into_iter().any(|name| header(name).is_some()),
        // The site may have written one of its own before.
        Verdict::Page => values(response.headers, "via").any(|via| via.contains("tidegate")),
    };
    let closes = is("connection", "close");
    let shows_limiter = shows_limiter || is_refusal;
    Ok(end.map(|end| Reply { status, body: head..end, closes, is_refusal, shows_limiter }))
}

fn value<'h>(headers: &[Header<'h>], name: &str) -> Option<&'h str> {
    let found = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    found.and_then(|header| std::str::from_utf8(header.value).ok())
}

/// The lines of this name that are text.
fn values<'h>(headers: &[Header<'h>], name: &str) -> impl Iterator<Item = &'h str> {
    let named = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    named.filter_map(|header| std::str::from_utf8(header.value).ok())
}

/// Where the last chunk ends, if it has arrived. Trailers are an error: no client of ours asks for them.
fn chunks_end(bytes: &[u8], mut at: usize) -> Result<Option<usize>, ()> {
    const LINE_END: &[u8] = b"\r\n";
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let size = httparse::parse_chunk_size(rest).map_err(drop)?;
        let httparse::Status::Complete((start, size)) = size else { return Ok(None) };
        let size = usize::try_from(size).ok().filter(|it| *it <= REPLY_BYTES_MAX).ok_or(())?;
        at += start + size + LINE_END.len();
        match bytes.get(at - LINE_END.len()..at) {
            None => return Ok(None),
            Some(LINE_END) if size == 0 => return Ok(Some(at)),
            Some(LINE_END) => {}
            Some(_) => return Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    const GRAMMAR: Grammar = Grammar {
        whole: &[
            "HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"allowed\":true}",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        ],
        words: &[
            "HTTP/1.1 ",
            "200",
            "204",
            " OK\r\n",
            "content-length: ",
            "Content-Length:",
            "18446744073709551615",
            "-1",
            "16",
            "connection: close\r\n",
            "transfer-encoding: chunked\r\n",
            "ffffffffffffffff\r\n",
            "0\r\n",
            "2\r\nhi",
            "\r\n",
            "{\"allowed\":",
            "true",
            "}",
            "{\"detail\":\"x\"}",
            "\0",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(10_000))]

        #[test]
        fn every_reply_is_a_decision_or_an_error(bytes in fuzz::bytes_like(GRAMMAR)) {
            for by in [Verdict::Body, Verdict::Auth, Verdict::Page] {
                if let Ok(Some(Ok(_))) = fuzz::held_to(20, &bytes, || read(&bytes, by)) {
                    let text = String::from_utf8_lossy(&bytes);
                    prop_assert!(bytes.starts_with(b"HTTP/1."), "{:?}", text);
                }
            }
        }
    }

    fn read(bytes: &[u8], by: Verdict) -> Result<Option<Result<bool, RequestError>>, RequestError> {
        decode(bytes, by)?.map(|reply| reply.decision(bytes, by)).transpose()
    }

    #[test]
    fn a_reply_is_read_once_it_is_complete() {
        for (whole, by) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}", Verdict::Body),
            ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Verdict::Auth),
            ("HTTP/1.1 204 No\r\n\r\n", Verdict::Page),
            (
                "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3;x=1\r\none\r\nA\r\n0123456789\r\n0\r\n\r\n",
                Verdict::Page,
            ),
        ] {
            for length in 0..whole.len() {
                assert_eq!(read(&whole.as_bytes()[..length], by), Ok(None), "{whole} {length}");
            }
            assert_eq!(read(whole.as_bytes(), by), Ok(Some(Ok(true))), "{whole}");
        }
    }

    #[test]
    fn a_proxy_is_known_by_any_line_of_via() {
        for (via, expected) in [
            ("via: 1.1 tidegate (x)\r\n", true),
            ("via: 1.1 site\r\nVia: 1.1 tidegate (x)\r\n", true),
            ("via: \u{e9}\r\nvia: 1.1 tidegate\r\n", true),
            ("via: 1.1 site\r\nx-via: tidegate\r\n", false),
            ("", false),
        ] {
            let reply = format!("HTTP/1.1 200 OK\r\n{via}content-length: 0\r\n\r\n");
            let reply = decode(reply.as_bytes(), Verdict::Page).unwrap().unwrap();
            assert_eq!(reply.shows_limiter, expected, "{via}");
        }
    }

    #[test]
    fn a_refusal_is_told_by_its_status() {
        use Verdict::{Auth, Page};
        let refused = |status: u16| format!("status {status}");
        for (status, header, by, expected) in [
            (200, "", Auth, Ok(true)),
            (429, "", Auth, Ok(false)),
            (503, "retry-after: 1\r\n", Auth, Ok(false)),
            (503, "", Auth, Err(refused(503))),
            (404, "", Auth, Err(refused(404))),
            (404, "", Page, Ok(true)),
            (429, "", Page, Ok(false)),
            (503, "Retry-After: 1\r\n", Page, Ok(false)),
            (502, "", Page, Err(refused(502))),
        ] {
            let bytes = format!("HTTP/1.1 {status} X\r\n{header}content-length: 0\r\n\r\n");
            let decision = read(bytes.as_bytes(), by).unwrap().unwrap();
            assert_eq!(decision.map_err(|error| error.message), expected, "{bytes}");
        }
    }

    #[test]
    fn other_replies_are_errors() {
        for (bytes, kind, message) in [
            (&b"SSH-2.0-x\r\n"[..], ErrorKind::BadReply, "SSH-2.0"),
            (b"\x15\x03\x03\0\x02\x02\x16", ErrorKind::BadReply, "it speaks TLS"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", ErrorKind::BadReply, "`hi`"),
            (b"HTTP/1.1 200 OK\r\n\r\n", ErrorKind::BadReply, "HTTP"),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx",
                ErrorKind::BadReply,
                "HTTP",
            ),
            (
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc",
                ErrorKind::BadReply,
                "HTTP",
            ),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n", ErrorKind::BadReply, "HTTP"),
        ] {
            let error = read(bytes, Verdict::Body).unwrap_err();
            assert!(error.kind == kind && error.message.contains(message), "{error:?}");
        }
        let refused = b"HTTP/1.1 404 No\r\ncontent-length: 14\r\n\r\n{\"detail\":\"x\"}";
        let refused = read(refused, Verdict::Body).unwrap().unwrap().unwrap_err();
        assert_eq!(refused, RequestError::new(ErrorKind::Refused, "status 404: x"));
    }
}
