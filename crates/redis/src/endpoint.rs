//! What a store's URL names: where servers listen, and how to log in.

use std::fmt;
use std::path::PathBuf;

/// Where a server listens.
///
/// ```
/// use tidegate_redis::Endpoint;
///
/// let endpoint = Endpoint::Tcp { host: "::1".to_owned(), port: 6379 };
/// assert_eq!(endpoint.to_string(), "[::1]:6379");
/// assert_eq!(Endpoint::Unix("/run/redis.sock".into()).to_string(), "/run/redis.sock");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Endpoint {
    /// Over TCP.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A user and a password. `Debug` shows neither.
///
/// ```
/// use tidegate_redis::Login;
///
/// let login = Login { user: Some("app".to_owned()), password: "secret".to_owned() };
/// assert_eq!(format!("{login:?}"), "Login(…)");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// `None` for the default user.
    pub user: Option<String>,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

/// The servers of a store.
///
/// ```
/// use tidegate_redis::{RedisUrl, Topology};
///
/// let url = RedisUrl::parse("redis+sentinel://10.0.0.1,10.0.0.2/main")?;
/// let Topology::Sentinel { sentinels, primary, login: None } = &url.topology else { unreachable!() };
/// assert_eq!((sentinels.len(), primary.as_str()), (2, "main"));
///
/// assert!(matches!(RedisUrl::parse("redis://127.0.0.1")?.topology, Topology::Single(_)));
/// let cluster = RedisUrl::parse("redis+cluster://10.0.0.1:7000,10.0.0.2:7000")?;
/// assert!(matches!(cluster.topology, Topology::Cluster(seeds) if seeds.len() == 2));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Topology {
    /// One server.
    Single(Endpoint),
    /// A cluster: each of these knows the others.
    Cluster(Vec<Endpoint>),
    /// One primary, whose address sentinels know.
    Sentinel {
        /// The sentinels.
        sentinels: Vec<Endpoint>,
        /// The name of the primary.
        primary: String,
        /// The login of the sentinels themselves.
        login: Option<Login>,
    },
}

/// The files of a TLS connection, in PEM.
///
/// ```
/// use tidegate_redis::RedisUrl;
///
/// let tls = RedisUrl::parse("rediss://10.0.0.1?ca=/etc/ca.pem")?.tls.unwrap_or_default();
/// assert_eq!(tls.ca.as_deref(), Some("/etc/ca.pem".as_ref()));
/// assert_eq!((tls.cert, tls.key), (None, None));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsFiles {
    /// The authority to trust, instead of the system's.
    pub ca: Option<PathBuf>,
    /// The client's certificate, with its key.
    pub cert: Option<PathBuf>,
    /// The client's key.
    pub key: Option<PathBuf>,
}
