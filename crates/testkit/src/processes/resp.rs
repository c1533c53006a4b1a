//! A minimal blocking Redis client for the test harness: one command, one reply.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Ends the wait for a server that is paused or busy with a script.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// The reply to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Nil,
    Integer(i64),
    Text(String),
    Error(String),
    Array(Vec<Reply>),
}

impl Reply {
    /// The reply as text: an array has a line per element, nil is empty. Panics on an error.
    pub fn text(&self) -> String {
        match self {
            Self::Nil => String::new(),
            Self::Integer(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::Error(error) => panic!("the server replied with {error}"),
            Self::Array(items) => items.iter().map(Self::text).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The value of a line `field:value`, as in `INFO`.
    pub fn field(&self, name: &str) -> Option<String> {
        self.text().lines().find_map(|line| {
            line.strip_prefix(name)?.strip_prefix(':').map(|value| value.trim().to_owned())
        })
    }
}

/// A connection over the Unix socket. It needs no TLS and works whatever a test does to the port.
pub(super) struct Connection(BufReader<UnixStream>);

impl Connection {
    pub(super) fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
        stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(super) fn command(&mut self, args: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", args.len());
        for arg in args {
            write!(request, "${}\r\n{arg}\r\n", arg.len()).map_err(io::Error::other)?;
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        self.reply()
    }

    fn reply(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number()?)),
            "$" => number()?.try_into().map_or(Ok(Reply::Nil), |length| self.bulk(length)),
            "*" => (0..number()?).map(|_| self.reply()).collect::<Result<_, _>>().map(Reply::Array),
            _ => Err(io::Error::other(format!("not a reply: {line}"))),
        }
    }

    fn bulk(&mut self, length: usize) -> io::Result<Reply> {
        let mut bytes = vec![0; length + 2];
        self.0.read_exact(&mut bytes)?;
        Ok(Reply::Text(String::from_utf8_lossy(&bytes[..length]).into_owned()))
    }
}
