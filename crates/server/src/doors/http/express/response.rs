//! An answer, as HTTP/1.1 has it.

use std::io::Write;

use axum::http::StatusCode;

use super::super::whole::Whole;
use super::date;

/// Adds an answer to what is to be sent. What hyper adds by itself is added here as well.
pub(super) fn write(out: &mut Vec<u8>, whole: &Whole) {
    let Whole { response, report } = whole;
    match response.status() {
        StatusCode::OK => out.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
        // To write to memory never fails.
        other => drop(write!(out, "HTTP/1.1 {other}\r\n")),
    }
    for (name, value) in response.headers() {
        line(out, name.as_str(), value.as_bytes());
    }
    if let Some(report) = report {
        report.each(|name, value| drop(write!(out, "{name}: {value}\r\n")));
    }
    let _ = write!(out, "content-length: {}\r\n", response.body().len());
    date::with_now(|date| line(out, "date", date.as_bytes()));
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(response.body());
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use axum::http::{HeaderValue, Response};

    use super::*;

    fn written(status: StatusCode) -> String {
        let mut response = Response::new(Bytes::from_static(b"{}"));
        *response.status_mut() = status;
        response.headers_mut().insert("a", HeaderValue::from_static("b"));
        let mut out = Vec::new();
        write(&mut out, &response.into());
        String::from_utf8(out).unwrap()
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
