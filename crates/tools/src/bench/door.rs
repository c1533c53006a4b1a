//! What is spoken. A line encodes what is asked, waits, and decodes the answers: one file for each protocol.

pub(super) mod embedded;
pub(super) mod grpc;
pub(super) mod http;
pub(super) mod resp;

use std::io;

use super::keys::Keys;
use tidegate_core::text::printable;

/// The door of a server, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum DoorKind {
    /// `POST /v1/check` over HTTP/1.1, on connections that are kept
    Http,
    /// Envoy's `ShouldRateLimit`
    Grpc,
    /// TG.CHECK of the Redis protocol, or CL.THROTTLE with --limit
    Resp,
    /// HTTP over a Unix socket
    Unix,
    /// No server: the library in this process, with its store in memory
    Embedded,
}

impl DoorKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Resp => "resp",
            Self::Unix => "unix",
            Self::Embedded => "embedded",
        }
    }

    /// What its URLs look like.
    pub(super) const fn example(self) -> &'static str {
        match self {
            Self::Http => "a URL like http://127.0.0.1:8080 or unix:/run/tidegate/http.sock",
            Self::Grpc => "an address like 127.0.0.1:8081 or unix:/run/tidegate/grpc.sock",
            Self::Resp => "a URL like redis://127.0.0.1:6380 or unix:/run/tidegate/resp.sock",
            Self::Unix => "a path like unix:/run/tidegate/http.sock",
            Self::Embedded => "no URL",
        }
    }

    /// What to do when nobody is there.
    pub(super) const fn hint(self) -> &'static str {
        match self {
            Self::Http => {
                "is the server running, and is this its HTTP address? `tidegate serve` starts one"
            }
            Self::Grpc => {
                "is the server running, and is its gRPC door open there? \
                 `tidegate serve --grpc 127.0.0.1:8081` opens one"
            }
            Self::Resp => {
                "is the server running, and does it speak the Redis protocol there? \
                 `tidegate serve --resp 127.0.0.1:6380` does"
            }
            Self::Unix | Self::Embedded => {
                "is the server running? `tidegate serve --listen unix:PATH` opens such a socket"
            }
        }
    }
}

/// What one exchange came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    /// What was answered with an error: how often, and the first of them.
    pub(super) refused: Option<(u64, Trouble)>,
}

impl Answers {
    pub(super) fn add(&mut self, answer: Result<bool, Trouble>) {
        match answer {
            Ok(true) => self.allowed += 1,
            Ok(false) => self.denied += 1,
            Err(trouble) => self.refused.get_or_insert((0, trouble)).0 += 1,
        }
    }
}

/// Why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Trouble {
    pub(super) kind: Kind,
    pub(super) message: String,
}

/// So that few kinds are counted, whatever servers say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    Connect,
    Lost,
    Late,
    Refused,
    Unclear,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Lost => "connection lost",
            Self::Late => "timeout",
            Self::Refused => "answered with an error",
            Self::Unclear => "answer not understood",
        }
    }
}

impl Trouble {
    pub(super) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(super) fn lost(error: &io::Error) -> Self {
        Self::new(Kind::Lost, format!("the connection was lost: {error}"))
    }

    pub(super) fn hung_up() -> Self {
        Self::new(Kind::Lost, "the server has hung up")
    }

    pub(super) fn unclear(answer: &[u8]) -> Self {
        let start = answer.get(..80).unwrap_or(answer);
        let shown = printable(&String::from_utf8_lossy(start));
        Self::new(Kind::Unclear, format!("expected an answer of this protocol, not `{shown}`"))
    }
}

/// One who asks and waits.
#[derive(Debug)]
pub(super) enum Line {
    Http(http::Line),
    Grpc(grpc::Line),
    Resp(resp::Line),
    Embedded(embedded::Line),
}

impl Line {
    /// How many requests an exchange has.
    pub(super) fn batch(&self) -> u64 {
        match self {
            Self::Http(_) | Self::Grpc(_) => 1,
            Self::Resp(line) => line.pipeline,
            Self::Embedded(_) => embedded::AT_ONCE,
        }
    }

    /// Asks for `count` keys from a turn on, and waits for all answers. After an error the connection is made anew.
    pub(super) async fn exchange(
        &mut self,
        keys: &Keys,
        turn: u64,
        count: u64,
    ) -> Result<Answers, Trouble> {
        match self {
            Self::Http(line) => line.exchange(keys.at(turn)).await,
            Self::Grpc(line) => line.exchange(keys.at(turn)).await,
            Self::Resp(line) => line.exchange((turn..turn + count).map(|turn| keys.at(turn))).await,
            Self::Embedded(line) => {
                Ok(line.exchange((turn..turn + count).map(|turn| keys.at(turn))))
            }
        }
    }

    /// Forgets a connection on which something went wrong: what comes on it might be the answer to something else.
    pub(super) fn give_up(&mut self) {
        match self {
            Self::Http(line) => line.give_up(),
            Self::Resp(line) => line.give_up(),
            // A call has its own stream, and a connection that is closed knows it.
            Self::Grpc(_) | Self::Embedded(_) => {}
        }
    }
}
