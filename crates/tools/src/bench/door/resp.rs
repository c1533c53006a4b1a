//! Commands of the Redis protocol, several in one write.

use std::io::Write;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Answers, Kind, Trouble};
use crate::bench::question::Question;
use crate::bench::target::Stream;
use crate::bench::target::Target;
use tidegate_core::text::printable;

/// Far more than any answer has.
const LINE_BYTES_MAX: usize = 4 << 10;
/// What an answer of five integers has.
const NUMBERS: usize = 5;

/// What is the same in every command: what stands before the key, and after it.
#[derive(Debug)]
pub(in super::super) struct Form {
    target: Target,
    before: Vec<u8>,
    after: Vec<u8>,
    /// The first number of an answer that allows.
    allows: i64,
}

#[derive(Debug)]
pub(in super::super) struct Line {
    form: Arc<Form>,
    pub(super) pipeline: u64,
    stream: Option<Stream>,
    out: Vec<u8>,
    input: Vec<u8>,
}

impl Form {
    fn new(target: &Target, before: &[&str], after: &[&str], allows: i64) -> Self {
        let mut bytes = format!("*{}\r\n", before.len() + 1 + after.len()).into_bytes();
        for word in before {
            bulk(&mut bytes, word);
        }
        let mut end = Vec::new();
        for word in after {
            bulk(&mut end, word);
        }
        Self { target: target.clone(), before: bytes, after: end, allows }
    }

    /// Finds out what the server understands, and spends nothing.
    pub(in super::super) async fn find(
        target: &Target,
        question: &Question,
        key: &str,
    ) -> Result<Self, Trouble> {
        let cost = question.cost.to_string();
        let Some(given) = question.given else {
            let policy = question.policy.as_str();
            let peek = Self::new(target, &["TG.PEEK", policy], &["0"], 0);
            return match Line::try_once(peek, key).await? {
                Ok(_) => Ok(Self::new(target, &["TG.CHECK", policy], &[&cost], 0)),
                Err(refused) if refused.message.contains("unknown command") => Err(Trouble::new(
                    Kind::Refused,
                    "it knows no policies (TG.CHECK): for redis-cell or throttlecrab say with --limit what \
                     limit goes along, like --limit 1000000/s",
                )),
                Err(refused) => Err(refused),
            };
        };
        let numbers = [given.max_burst, given.count, given.period_s].map(|it| it.to_string());
        let [burst, count, period] = numbers.each_ref().map(String::as_str);
        let mut said = String::new();
        // As redis-cell has it, and as throttlecrab does, whose first number means the opposite.
        for (name, allows) in [("CL.THROTTLE", 0), ("THROTTLE", 1)] {
            let form =
                |cost: &str| Self::new(target, &[name], &[burst, count, period, cost], allows);
            match Line::try_once(form("0"), key).await? {
                Ok(_) => return Ok(form(&cost)),
                Err(refused) if refused.message.contains("unknown command") => {
                    said = refused.message;
                }
                Err(refused) => return Err(refused),
            }
        }
        let why = format!(
            "it knows neither CL.THROTTLE nor THROTTLE ({said}): a Redis needs the module redis-cell for that \
             (`redis-server --loadmodule libredis_cell.so`)"
        );
        Err(Trouble::new(Kind::Refused, why))
    }
}

fn bulk(out: &mut Vec<u8>, word: &str) {
    // Writing to memory cannot fail.
    let _ = write!(out, "${}\r\n{word}\r\n", word.len());
}

impl Line {
    pub(in super::super) const fn new(form: Arc<Form>, pipeline: u64) -> Self {
        Self { form, pipeline, stream: None, out: Vec::new(), input: Vec::new() }
    }

    pub(in super::super) async fn connect(&mut self) -> Result<(), Trouble> {
        let mut stream = self.form.target.connect().await?;
        let login = &self.form.target.login.0;
        if !login.is_empty() {
            let mut out = format!("*{}\r\n", login.len() + 1).into_bytes();
            bulk(&mut out, "AUTH");
            for word in login {
                bulk(&mut out, word);
            }
            log_in(&mut stream, &out).await?;
        }
        self.stream = Some(stream);
        Ok(())
    }

    pub(super) fn give_up(&mut self) {
        self.stream = None;
    }

    /// What one command comes to.
    async fn try_once(form: Form, key: &str) -> Result<Result<bool, Trouble>, Trouble> {
        let answers = Self::new(form.into(), 1).exchange(std::iter::once(key)).await?;
        Ok(match answers.refused {
            Some((_, refused)) => Err(refused),
            None => Ok(answers.allowed > 0),
        })
    }

    pub(super) async fn exchange<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k str>,
    ) -> Result<Answers, Trouble> {
        self.out.clear();
        let mut missing = 0_u64;
        for key in keys {
            self.out.extend_from_slice(&self.form.before);
            bulk(&mut self.out, key);
            self.out.extend_from_slice(&self.form.after);
            missing += 1;
        }
        if self.stream.is_none() {
            self.connect().await?;
        }
        let Some(stream) = &mut self.stream else { return Err(Trouble::hung_up()) };
        stream.write_all(&self.out).await.map_err(|error| Trouble::lost(&error))?;
        self.input.clear();
        let mut answers = Answers::default();
        while missing > 0 {
            let count = stream.read_buf(&mut self.input).await;
            if count.map_err(|error| Trouble::lost(&error))? == 0 {
                return Err(Trouble::hung_up());
            }
            let mut used = 0;
            while missing > 0
                && let Some((answer, length)) = decode(self.input.get(used..).unwrap_or_default())?
            {
                answers.add(answer.map(|first| first == self.form.allows));
                used += length;
                missing -= 1;
            }
            self.input.drain(..used);
        }
        Ok(answers)
    }
}

/// Sends an `AUTH`, and waits until it is accepted.
async fn log_in(stream: &mut Stream, auth: &[u8]) -> Result<(), Trouble> {
    stream.write_all(auth).await.map_err(|error| Trouble::lost(&error))?;
    let mut input = Vec::new();
    loop {
        let count = stream.read_buf(&mut input).await;
        if count.map_err(|error| Trouble::lost(&error))? == 0 {
            return Err(Trouble::hung_up());
        }
        match line(&input)? {
            None => {}
            Some((b"+OK", _)) => return Ok(()),
            Some((said, _)) => {
                return Err(said
                    .strip_prefix(b"-")
                    .map_or_else(|| Trouble::unclear(said), refused));
            }
        }
    }
}

/// An error of the server, in its words.
fn refused(text: &[u8]) -> Trouble {
    let said = printable(&String::from_utf8_lossy(text));
    let hint = if said.starts_with("NOAUTH") {
        ": put the password into the URL, like redis://:PASSWORD@127.0.0.1:6380"
    } else {
        ""
    };
    Trouble::new(Kind::Refused, format!("{said}{hint}"))
}

/// The first number of an answer or its error, and how long it is, once all of it is there.
type Decoded = (Result<i64, Trouble>, usize);

fn decode(bytes: &[u8]) -> Result<Option<Decoded>, Trouble> {
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
                first.get_or_insert(number.ok_or_else(|| Trouble::unclear(bytes))?);
                used += length;
            }
            Ok(first.map(|first| (Ok(first), used)))
        }
        _ => Err(Trouble::unclear(bytes)),
    }
}

/// The first line without its end, and how long it is with it.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Trouble> {
    let end = bytes.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n');
    match end {
        Some(end) => {
            let line = bytes.get(..end).unwrap_or_default();
            Ok(Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1)))
        }
        None if bytes.len() >= LINE_BYTES_MAX => Err(Trouble::unclear(bytes)),
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
        fn an_answer_is_as_long_as_it_says_and_needs_no_more(bytes in fuzz::bytes_like(GRAMMAR)) {
            if let Ok(Some(read)) = fuzz::held_to(20, &bytes, || decode(&bytes)) {
                let length = read.1;
                prop_assert!((1..=bytes.len()).contains(&length));
                prop_assert_eq!(decode(&bytes[..length - 1]), Ok(None));
                prop_assert_eq!(decode(&bytes[..length]), Ok(Some(read)));
            }
        }
    }

    #[test]
    fn an_answer_is_read_once_it_is_whole() {
        let whole = b"*5\r\n:1\r\n:20\r\n:-3\r\n:4\r\n:5\r\n";
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), Ok(None), "{length}");
        }
        let two = [&whole[..], b"-ERR no\r\n"].concat();
        assert_eq!(decode(&two), Ok(Some((Ok(1), whole.len()))));
        let error = Trouble::new(Kind::Refused, "ERR no");
        assert_eq!(decode(&two[whole.len()..]), Ok(Some((Err(error), 9))));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for bytes in [&b"+OK\r\n"[..], b"*4\r\n", b"*5\r\n$1\r\n", b"*5\r\n:x\r\n", b"HTTP/1.1\r\n"]
        {
            assert_eq!(decode(bytes).unwrap_err().kind, Kind::Unclear, "{bytes:?}");
        }
        assert!(decode(&[b'*'; LINE_BYTES_MAX]).is_err());
    }
}
