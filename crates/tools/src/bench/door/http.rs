//! HTTP/1.1, one request at a time on a connection that is kept.

use std::io::Write;
use std::sync::Arc;

use httparse::{EMPTY_HEADER, Response};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Answers, Kind, Trouble};
use crate::bench::question::Question;
use crate::bench::target::Stream;
use crate::bench::target::Target;
use tidegate_core::text::printable;

/// Far more than any answer has.
const ANSWER_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// What is the same in every request.
#[derive(Debug)]
pub(in super::super) struct Form {
    target: Target,
    path: &'static str,
    /// A JSON object that lacks the key and its end.
    start: String,
}

#[derive(Debug)]
pub(in super::super) struct Line {
    form: Arc<Form>,
    stream: Option<Stream>,
    body: Vec<u8>,
    out: Vec<u8>,
    input: Vec<u8>,
}

/// What is read of a decision.
#[derive(Deserialize)]
struct Decision {
    allowed: bool,
}

/// What is read of a problem.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Form {
    fn tidegate(target: &Target, question: &Question, path: &'static str) -> Self {
        let policy = serde_json::Value::from(question.policy.as_str());
        let start = format!(r#"{{"policy":{policy},"cost":{},"key":"#, question.cost);
        Self { target: target.clone(), path, start }
    }

    /// Finds out what the server understands, and spends nothing. A limit can only go along to throttlecrab, which has
    /// no policies.
    pub(in super::super) async fn find(
        target: &Target,
        question: &Question,
        key: &str,
    ) -> Result<Self, Trouble> {
        let peek = Self::tidegate(target, question, "/v1/peek");
        let refused = match Line::new(peek.into()).ask(key).await {
            Ok(Ok(_)) => return Ok(Self::tidegate(target, question, "/v1/check")),
            Ok(Err(refused)) => refused,
            Err(trouble) => return Err(trouble),
        };
        let Some(given) = question.given else { return Err(refused) };
        let throttle = |quantity: u32| {
            let limit = format!(
                r#""max_burst":{},"count_per_period":{},"period":{}"#,
                given.max_burst, given.count, given.period_s
            );
            let start = format!(r#"{{{limit},"quantity":{quantity},"key":"#);
            Self { target: target.clone(), path: "/throttle", start }
        };
        match Line::new(throttle(0).into()).ask(key).await {
            Ok(Ok(_)) => Ok(throttle(question.cost)),
            _ => Err(Trouble::new(
                refused.kind,
                format!(
                    "{}; over HTTP a --limit can only go along to throttlecrab: ask for a --policy",
                    refused.message
                ),
            )),
        }
    }
}

impl Line {
    pub(in super::super) const fn new(form: Arc<Form>) -> Self {
        Self { form, stream: None, body: Vec::new(), out: Vec::new(), input: Vec::new() }
    }

    pub(in super::super) async fn connect(&mut self) -> Result<(), Trouble> {
        self.stream = Some(self.form.target.connect().await?);
        Ok(())
    }

    pub(super) fn give_up(&mut self) {
        self.stream = None;
    }

    pub(super) async fn exchange(&mut self, key: &str) -> Result<Answers, Trouble> {
        let mut answers = Answers::default();
        answers.add(self.ask(key).await?);
        Ok(answers)
    }

    /// Whether it was allowed, or what the server said instead.
    async fn ask(&mut self, key: &str) -> Result<Result<bool, Trouble>, Trouble> {
        if self.stream.is_none() {
            self.connect().await?;
        }
        self.encode(key).map_err(|error| Trouble::lost(&error))?;
        let Some(stream) = &mut self.stream else { return Err(Trouble::hung_up()) };
        stream.write_all(&self.out).await.map_err(|error| Trouble::lost(&error))?;
        self.input.clear();
        let answer = loop {
            let count = stream.read_buf(&mut self.input).await;
            if count.map_err(|error| Trouble::lost(&error))? == 0 {
                return Err(Trouble::hung_up());
            }
            if let Some(answer) = decode(&self.input)? {
                break answer;
            }
            if self.input.len() > ANSWER_BYTES_MAX {
                return Err(Trouble::unclear(&self.input));
            }
        };
        let said = answer.meaning(&self.input);
        if answer.closes {
            self.stream = None;
        }
        said
    }

    fn encode(&mut self, key: &str) -> std::io::Result<()> {
        let Form { target, path, start } = &*self.form;
        self.body.clear();
        self.body.extend_from_slice(start.as_bytes());
        serde_json::to_writer(&mut self.body, key)?;
        self.body.push(b'}');
        self.out.clear();
        write!(
            self.out,
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            target.host,
            self.body.len()
        )?;
        self.out.extend_from_slice(&self.body);
        Ok(())
    }
}

/// A whole answer.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: std::ops::Range<usize>,
    closes: bool,
}

impl Answer {
    fn meaning(&self, bytes: &[u8]) -> Result<Result<bool, Trouble>, Trouble> {
        let body = bytes.get(self.body.clone()).unwrap_or_default();
        if self.status == 200 {
            let decision = serde_json::from_slice(body);
            let decision: Decision = decision.map_err(|_| Trouble::unclear(body))?;
            return Ok(Ok(decision.allowed));
        }
        let detail = serde_json::from_slice(body).map(|problem: Problem| problem.detail);
        let detail = detail.map_or_else(|_| String::new(), |it| format!(": {}", printable(&it)));
        Ok(Err(Trouble::new(Kind::Refused, format!("status {}{detail}", self.status))))
    }
}

/// An answer, once all of it is there.
fn decode(bytes: &[u8]) -> Result<Option<Answer>, Trouble> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut response = Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|_| Trouble::unclear(bytes))?;
    let httparse::Status::Complete(head) = parsed else { return Ok(None) };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let length = header("content-length").and_then(|length| length.parse::<usize>().ok());
    let length = length.filter(|length| *length <= ANSWER_BYTES_MAX);
    let length = length.ok_or_else(|| Trouble::unclear(bytes))?;
    if bytes.len() < head + length {
        return Ok(None);
    }
    Ok(Some(Answer {
        status: response.code.unwrap_or_default(),
        body: head..head + length,
        closes: header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")),
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    const GRAMMAR: Grammar = Grammar {
        whole: &["HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n{\"allowed\":true}"],
        words: &[
            "HTTP/1.1 ",
            "200",
            " OK\r\n",
            "content-length: ",
            "Content-Length:",
            "18446744073709551615",
            "-1",
            "16",
            "connection: close\r\n",
            "transfer-encoding: chunked\r\n",
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
        fn whatever_is_answered_is_a_decision_or_trouble(bytes in fuzz::bytes_like(GRAMMAR)) {
            if let Ok(Some(Ok(_))) = fuzz::held_to(20, &bytes, || read(&bytes)) {
                prop_assert!(bytes.starts_with(b"HTTP/1."), "{:?}", String::from_utf8_lossy(&bytes));
            }
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<Result<bool, Trouble>>, Trouble> {
        decode(bytes)?.map(|answer| answer.meaning(bytes)).transpose()
    }

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"allowed\":true}";
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), Ok(None), "{length}");
        }
        assert_eq!(read(whole), Ok(Some(Ok(true))));
    }

    #[test]
    fn what_is_no_decision_is_told() {
        for (bytes, kind, message) in [
            (&b"SSH-2.0-x\r\n"[..], Kind::Unclear, "SSH-2.0"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi", Kind::Unclear, "`hi`"),
            (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", Kind::Unclear, "HTTP"),
            (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n", Kind::Unclear, "HTTP"),
        ] {
            let trouble = read(bytes).unwrap_err();
            assert!(trouble.kind == kind && trouble.message.contains(message), "{trouble:?}");
        }
        let refused = b"HTTP/1.1 404 No\r\ncontent-length: 14\r\n\r\n{\"detail\":\"x\"}";
        let refused = read(refused).unwrap().unwrap().unwrap_err();
        assert_eq!(refused, Trouble::new(Kind::Refused, "status 404: x"));
    }
}
