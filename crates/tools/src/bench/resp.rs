//! Commands of the Redis protocol, several in one write.

use std::io::Write;
use std::sync::Arc;

use super::config::RequestTemplate;
use super::connection::{BatchResult, Connection};
use super::error::{ErrorKind, RequestError};
use super::target::Target;
use tidegate_core::text::printable;

/// Far more than any line of a reply has.
const LINE_BYTES_MAX: usize = 4 << 10;
/// A reply is an array of five integers.
const NUMBERS: usize = 5;

/// What all commands have in common: the bytes before the key, and after it.
#[derive(Debug)]
pub(super) struct RespTemplate {
    target: Target,
    before: Vec<u8>,
    after: Vec<u8>,
    /// The first number of a reply that allows.
    allows: i64,
}

#[derive(Debug)]
pub(super) struct RespClient {
    template: Arc<RespTemplate>,
    pub(super) pipeline: u64,
    pub(super) connection: Connection,
}

impl RespTemplate {
    fn new(target: &Target, before: &[&str], after: &[&str], allows: i64) -> Self {
        let head = format!("*{}\r\n", before.len() + 1 + after.len());
        let bytes = |start: String, words: &[&str]| {
            let mut bytes = start.into_bytes();
            for word in words {
                bulk(&mut bytes, word);
            }
            bytes
        };
        let (before, after) = (bytes(head, before), bytes(String::new(), after));
        Self { target: target.clone(), before, after, allows }
    }

    /// Asks which commands the server has, without spending.
    pub(super) async fn probe(
        target: &Target,
        request: &RequestTemplate,
        key: &str,
    ) -> Result<Self, RequestError> {
        let cost = request.cost.to_string();
        let Some(limit) = request.limit else {
            let policy = request.policy.as_str();
            let peek = Self::new(target, &["TG.PEEK", policy], &["0"], 0);
            return match RespClient::check_once(peek, key).await? {
                Ok(()) => Ok(Self::new(target, &["TG.CHECK", policy], &[&cost], 0)),
                Err(refused) if refused.message.contains("unknown command") => {
                    Err(RequestError::new(
                        ErrorKind::Refused,
                        "it knows no policies (TG.CHECK): for redis-cell or throttlecrab say with --limit what \
                         limit goes along, like --limit 1000000/s",
                    ))
                }
                Err(refused) => Err(refused),
            };
        };
        let numbers = [limit.max_burst, limit.count, limit.period_s].map(|it| it.to_string());
        let [burst, count, period] = numbers.each_ref().map(String::as_str);
        let mut message = String::new();
        // redis-cell, and throttlecrab, whose first number means the opposite.
        for (name, allows) in [("CL.THROTTLE", 0), ("THROTTLE", 1)] {
            let template =
                |cost: &str| Self::new(target, &[name], &[burst, count, period, cost], allows);
            match RespClient::check_once(template("0"), key).await? {
                Ok(()) => return Ok(template(&cost)),
                Err(refused) if refused.message.contains("unknown command") => {
                    message = refused.message;
                }
                Err(refused) => return Err(refused),
            }
        }
        let why = format!(
            "it knows neither CL.THROTTLE nor THROTTLE ({message}): a Redis needs the module redis-cell for that \
             (`redis-server --loadmodule libredis_cell.so`)"
        );
        Err(RequestError::new(ErrorKind::Refused, why))
    }
}

fn bulk(out: &mut Vec<u8>, word: &str) {
    // Writing to memory cannot fail.
    let _ = write!(out, "${}\r\n{word}\r\n", word.len());
}

impl RespClient {
    pub(super) fn new(template: Arc<RespTemplate>, pipeline: u64) -> Self {
        Self { template, pipeline, connection: Connection::default() }
    }

    /// Connects, and logs in if there are credentials.
    pub(super) async fn connect(&mut self) -> Result<(), RequestError> {
        self.connection.connect(&self.template.target).await?;
        let login = &self.template.target.credentials.0;
        if login.is_empty() {
            return Ok(());
        }
        let output = &mut self.connection.output;
        *output = format!("*{}\r\n", login.len() + 1).into_bytes();
        bulk(output, "AUTH");
        for word in login {
            bulk(output, word);
        }
        let done = self.connection.exchange(|input| match line(input)? {
            None => Ok(None),
            Some((b"+OK", _)) => Ok(Some(())),
            Some(([b'-', message @ ..], _)) => Err(refused(message)),
            Some((reply, _)) => Err(RequestError::bad_reply(reply)),
        });
        let done = done.await;
        if done.is_err() {
            self.connection.stream = None;
        }
        done
    }

    /// Sends one command.
    async fn check_once(
        template: RespTemplate,
        key: &str,
    ) -> Result<Result<(), RequestError>, RequestError> {
        let result = Self::new(template.into(), 1).send(std::iter::once(key)).await?;
        Ok(result.refused.map_or(Ok(()), |(_, refused)| Err(refused)))
    }

    pub(super) async fn send<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k str>,
    ) -> Result<BatchResult, RequestError> {
        if self.connection.stream.is_none() {
            self.connect().await?;
        }
        let RespTemplate { before, after, allows, .. } = &*self.template;
        let output = &mut self.connection.output;
        output.clear();
        let mut missing = 0_u64;
        for key in keys {
            output.extend_from_slice(before);
            bulk(output, key);
            output.extend_from_slice(after);
            missing += 1;
        }
        let mut result = BatchResult::default();
        let decode = |input: &mut Vec<u8>| {
            let mut used = 0;
            while missing > 0
                && let Some((reply, length)) = decode(input.get(used..).unwrap_or_default())?
            {
                result.add(reply.map(|first| first == *allows));
                used += length;
                missing -= 1;
            }
            input.drain(..used);
            Ok((missing == 0).then_some(()))
        };
        self.connection.exchange(decode).await?;
        Ok(result)
    }
}

/// An error reply.
fn refused(text: &[u8]) -> RequestError {
    let message = printable(&String::from_utf8_lossy(text));
    let hint = if message.starts_with("NOAUTH") {
        ": put the password into the URL, like redis://:PASSWORD@127.0.0.1:6380"
    } else {
        ""
    };
    RequestError::new(ErrorKind::Refused, format!("{message}{hint}"))
}

/// The first number of a reply or its error, and its length, once it is complete.
type Decoded = (Result<i64, RequestError>, usize);

fn decode(bytes: &[u8]) -> Result<Option<Decoded>, RequestError> {
    let Some((line, mut used)) = line(bytes)? else { return Ok(None) };
    match line.split_first() {
        Some((b'-', text)) => Ok(Some((Err(refused(text)), used))),
        Some((b'*', b"5")) => {
            let mut first = None;
            for _ in 0..NUMBERS {
                let Some((line, length)) = self::line(bytes.get(used..).unwrap_or_default())?
                else {
                    return Ok(None);
                };
                let number = line.strip_prefix(b":").and_then(|it| std::str::from_utf8(it).ok());
                let number = number.and_then(|number| number.parse().ok());
                first.get_or_insert(number.ok_or_else(|| RequestError::bad_reply(bytes))?);
                used += length;
            }
            Ok(first.map(|first| (Ok(first), used)))
        }
        _ => Err(RequestError::bad_reply(bytes)),
    }
}

/// The first line without its end, and its length with it.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, RequestError> {
    let end = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n');
    match end {
        Some(end) => {
            let line = bytes.get(..end).unwrap_or_default();
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
        }
        None if bytes.len() >= LINE_BYTES_MAX => Err(RequestError::bad_reply(bytes)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use tidegate_testkit::fuzz::{self, Grammar};

    const GRAMMAR: Grammar = Grammar {
        whole: &["*5\r\n:0\r\n:20\r\n:19\r\n:-1\r\n:3\r\n", "-ERR no\r\n"],
        words: &[
            "*5\r\n",
            "*-1\r\n",
            "*1000000000\r\n",
            "$1000000000\r\n",
            ":0\r\n",
            ":-9223372036854775809\r\n",
            ":x\r\n",
            "-ERR no\r\n",
            "+OK\r\n",
            "\r\n",
            "\n",
            "\r",
            "*",
            ":",
            "-",
        ],
    };

    proptest! {
        #![proptest_config(fuzz::config(10_000))]

        #[test]
        fn the_length_of_a_reply_is_exact(bytes in fuzz::bytes_like(GRAMMAR)) {
            if let Ok(Some(read)) = fuzz::held_to(20, &bytes, || decode(&bytes)) {
                let length = read.1;
                prop_assert!((1..=bytes.len()).contains(&length));
                prop_assert_eq!(decode(&bytes[..length - 1]), Ok(None));
                prop_assert_eq!(decode(&bytes[..length]), Ok(Some(read)));
            }
        }
    }

    #[test]
    fn a_reply_is_read_once_it_is_complete() {
        let whole = b"*5\r\n:1\r\n:20\r\n:-3\r\n:4\r\n:5\r\n";
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), Ok(None), "{length}");
        }
        let two = [&whole[..], b"-ERR no\r\n"].concat();
        assert_eq!(decode(&two), Ok(Some((Ok(1), whole.len()))));
        let error = RequestError::new(ErrorKind::Refused, "ERR no");
        assert_eq!(decode(&two[whole.len()..]), Ok(Some((Err(error), 9))));
    }

    #[test]
    fn other_bytes_are_errors() {
        for bytes in [&b"+OK\r\n"[..], b"*4\r\n", b"*5\r\n$1\r\n", b"*5\r\n:x\r\n", b"HTTP/1.1\r\n"]
        {
            assert_eq!(decode(bytes).unwrap_err().kind, ErrorKind::BadReply, "{bytes:?}");
        }
        assert!(decode(&[b'*'; LINE_BYTES_MAX]).is_err());
    }
}
