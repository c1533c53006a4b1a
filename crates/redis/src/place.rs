//! Where a server listens, and how to enter it.

use std::fmt;
use std::path::PathBuf;

use redis::{Cmd, RedisConnectionInfo, cmd};

#[cfg(not(feature = "tls"))]
pub(super) type Tls = std::convert::Infallible;
#[cfg(feature = "tls")]
pub(super) use super::tls::Tls;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// How to enter a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    pub(super) login: Option<Login>,
    pub(super) db: u32,
    pub(super) tls: Option<Tls>,
}

/// A user and a password, which is never shown.
#[derive(Clone)]
pub(super) struct Login {
    user: Option<String>,
    password: String,
}

impl Login {
    pub(super) const fn new(user: Option<String>, password: String) -> Self {
        Self { user, password }
    }

    /// For a protocol whose greeting has a place for it.
    pub(super) fn enter(&self, info: RedisConnectionInfo) -> RedisConnectionInfo {
        let info = info.set_password(&self.password);
        self.user.iter().fold(info, RedisConnectionInfo::set_username)
    }

    pub(super) fn command(&self) -> Cmd {
        let mut auth = cmd("AUTH");
        if let Some(user) = &self.user {
            auth.arg(user);
        }
        auth.arg(&self.password).take()
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}
