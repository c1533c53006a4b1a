//! Answers, as HTTP/1.1 has them. What hyper adds by itself is added here as well.

use std::io::Write;

use axum::body::Bytes;
use axum::http::Response;
use tidegate::tower::Headers;
use tidegate::{Answer, Clock, SystemClock, Timestamp};

use super::super::answer;
use super::date;
use crate::headers;

/// Answers that wait to be sent.
#[derive(Default)]
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    /// The body of an answer, until its length is known.
    body: Vec<u8>,
}

impl Out {
    /// Adds a decision with the headers that tell of it.
    pub(super) fn decision(&mut self, answer: &Answer<'_>, dialect: Headers, now: Timestamp) {
        let Self { bytes, body } = self;
        bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n");
        if let Some(report) = headers::report(dialect, answer, now) {
            report.each(|name, value| line(bytes, name.as_str(), value.as_bytes()));
        }
        body.clear();
        answer::write(body, answer);
        end(bytes, body, now);
    }

    /// Adds whatever else was answered.
    pub(super) fn response(&mut self, response: &Response<Bytes>) {
        // To write to memory never fails.
        let _ = write!(self.bytes, "HTTP/1.1 {}\r\n", response.status());
        for (name, value) in response.headers() {
            line(&mut self.bytes, name.as_str(), value.as_bytes());
        }
        end(&mut self.bytes, response.body(), SystemClock.now());
    }
}

/// Ends a head, and adds the body.
fn end(out: &mut Vec<u8>, body: &[u8], now: Timestamp) {
    line(out, "content-length", itoa::Buffer::new().format(body.len()).as_bytes());
    date::with(now, |date| line(out, "date", date.as_bytes()));
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, StatusCode};

    use super::*;

    fn written(status: StatusCode) -> String {
        let mut response = Response::new(Bytes::from_static(b"{}"));
        *response.status_mut() = status;
        response.headers_mut().insert("a", HeaderValue::from_static("b"));
        let mut out = Out::default();
        out.response(&response);
        String::from_utf8(out.bytes).unwrap()
    }

    #[test]
    fn an_answer_says_how_it_went_and_how_long_it_is() {
        for (status, line) in [
            (StatusCode::OK, "HTTP/1.1 200 OK"),
            (StatusCode::NOT_FOUND, "HTTP/1.1 404 Not Found"),
            (StatusCode::SERVICE_UNAVAILABLE, "HTTP/1.1 503 Service Unavailable"),
        ] {
            let text = written(status);
            let start = format!("{line}\r\na: b\r\ncontent-length: 2\r\ndate: ");
            assert!(text.starts_with(&start) && text.ends_with(" GMT\r\n\r\n{}"), "{text}");
        }
    }
}
