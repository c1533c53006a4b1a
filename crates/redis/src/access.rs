//! How to enter a server: login, database, TLS.

use redis::{Cmd, RedisConnectionInfo, cmd};
use tidegate::{StoreError, StoreErrorKind};

use crate::endpoint::{Login, TlsFiles};
#[cfg(feature = "tls")]
pub(crate) use crate::tls::Tls;
use crate::url::ServerList;

#[cfg(not(feature = "tls"))]
pub(crate) type Tls = std::convert::Infallible;

/// How to enter a server: what a [`ServerList`] says, with the files of TLS read.
///
/// ```
/// use tidegate_redis::{Access, ServerList};
///
/// let list = ServerList::parse("rediss+quorum://10.0.0.1?ca=/no/such/file.pem", "quorum")?;
/// assert!(Access::to(&list).is_err());
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Access {
    pub(crate) login: Option<Login>,
    pub(crate) db: u32,
    pub(crate) tls: Option<Tls>,
}

impl Access {
    /// Reads the files of TLS.
    pub fn to(list: &ServerList) -> Result<Self, StoreError> {
        Self::new(list.login.clone(), list.db, list.tls.as_ref())
    }

    /// Reads the files of TLS.
    pub(crate) fn new(
        login: Option<Login>,
        db: u32,
        files: Option<&TlsFiles>,
    ) -> Result<Self, StoreError> {
        Ok(Self { login, db, tls: files.map(tls).transpose()? })
    }
}

#[cfg(feature = "tls")]
fn tls(files: &TlsFiles) -> Result<Tls, StoreError> {
    let own = files.cert.as_deref().zip(files.key.as_deref());
    Tls::new(files.ca.as_deref(), own).map_err(|why| bad_url(&why))
}

#[cfg(not(feature = "tls"))]
fn tls(_: &TlsFiles) -> Result<Tls, StoreError> {
    Err(bad_url("scheme: rediss needs the feature `tls`"))
}

/// Names the part of a URL that is wrong, and nothing of its text: it may hold a password.
pub(crate) fn bad_url(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadRequest, format!("store URL, {why}"))
}

impl Login {
    /// For a protocol whose handshake includes the login.
    pub(crate) fn enter(&self, info: RedisConnectionInfo) -> RedisConnectionInfo {
        let info = info.set_password(&self.password);
        self.user.iter().fold(info, RedisConnectionInfo::set_username)
    }

    pub(crate) fn command(&self) -> Cmd {
        let mut auth = cmd("AUTH");
        if let Some(user) = &self.user {
            auth.arg(user);
        }
        auth.arg(&self.password).take()
    }
}
