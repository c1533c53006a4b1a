//! A store's URL as text, and what it means.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use tidegate::StoreError;
use tidegate_core::text::percent_decoded;

use crate::access::bad_url as bad;
use crate::endpoint::{Endpoint, Login, TlsFiles, Topology};

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

/// More servers than this in one URL are a mistake.
const SERVERS_MAX: usize = 64;

/// A URL of Redis, taken apart: see [`RedisOptions::url`](crate::RedisOptions::url) for its forms. Shown, it has neither
/// login nor parameters.
///
/// ```
/// use tidegate_redis::{RedisUrl, Topology};
///
/// let url = RedisUrl::parse("rediss://app:p%40ss@10.0.0.1/2?ca=/etc/ca.pem")?;
/// assert_eq!(url.to_string(), "rediss://10.0.0.1:6379/2");
/// assert_eq!(url.login.map(|login| login.password), Some("p@ss".to_owned()));
/// assert_eq!((url.db, url.tls.is_some()), (2, true));
/// assert!(matches!(url.topology, Topology::Single(_)));
///
/// // An error names the part, and never repeats it.
/// let error = RedisUrl::parse("redis://:secret@host:port").unwrap_err();
/// assert!(error.to_string().contains("port: expected a number"));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisUrl {
    /// The servers.
    pub topology: Topology,
    /// The login of Redis.
    pub login: Option<Login>,
    /// The number of the database.
    pub db: u32,
    /// The files of TLS; `None` without TLS.
    pub tls: Option<TlsFiles>,
}

impl RedisUrl {
    /// How URLs of all forms begin.
    ///
    /// ```
    /// # use tidegate_redis::RedisUrl;
    /// assert!(RedisUrl::SCHEMES.contains(&"redis+cluster://"));
    /// ```
    pub const SCHEMES: &'static [&'static str] = &[
        "redis://",
        "rediss://",
        "redis+unix://",
        "redis+cluster://",
        "rediss+cluster://",
        "redis+sentinel://",
        "rediss+sentinel://",
    ];

    /// Takes a URL apart. It reads no files.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad(SCHEMES))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query = parameters(query)?;
        let (secure, kind) = match scheme.split_once('+') {
            None if scheme == "redis" => (false, "single"),
            None if scheme == "rediss" => (true, "single"),
            Some(("redis", kind @ ("unix" | "cluster" | "sentinel"))) => (false, kind),
            Some(("rediss", kind @ ("cluster" | "sentinel"))) => (true, kind),
            _ => return Err(bad(SCHEMES)),
        };
        let url = if kind == "unix" {
            unix(rest, &mut query)?
        } else {
            let tls = if secure { Some(tls(&mut query)?) } else { None };
            network(kind, rest, tls, &mut query)?
        };
        if !query.is_empty() {
            return Err(bad(PARAMETERS));
        }
        Ok(url)
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        match &self.topology {
            Topology::Single(path @ Endpoint::Unix(_)) => return write!(f, "redis+unix://{path}"),
            Topology::Single(endpoint) => write!(f, "{scheme}://{endpoint}")?,
            Topology::Cluster(seeds) => write!(f, "{scheme}+cluster://{}", list(seeds))?,
            Topology::Sentinel { sentinels, primary, .. } => {
                write!(f, "{scheme}+sentinel://{}/{primary}", list(sentinels))?;
            }
        }
        if self.db == 0 { Ok(()) } else { write!(f, "/{}", self.db) }
    }
}

fn list(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// `/path?db=&user=&pass=`
fn unix(path: &str, query: &mut Parameters) -> Result<RedisUrl, StoreError> {
    if !path.starts_with('/') {
        return Err(bad("path: expected redis+unix:///path/to/redis.sock"));
    }
    let db = query.remove("db").map_or(Ok(0), |text| database(&text))?;
    let login = login(query.remove("user"), query.remove("pass"))?;
    let topology = Topology::Single(Endpoint::Unix(PathBuf::from(decoded(path)?)));
    Ok(RedisUrl { topology, login, db, tls: None })
}

/// `user:password@host:port,host:port/path`
fn network(
    kind: &str,
    rest: &str,
    tls: Option<TlsFiles>,
    query: &mut Parameters,
) -> Result<RedisUrl, StoreError> {
    let port = if kind == "sentinel" { SENTINEL_PORT } else { REDIS_PORT };
    let Authority { login, endpoints, path } = authority(rest, port)?;
    let mut db = 0;
    let topology = match kind {
        "cluster" if path.is_empty() => Topology::Cluster(endpoints),
        "cluster" => return Err(bad("database: a cluster has only one, so expected no path")),
        "sentinel" => {
            let (name, number) = path.split_once('/').unwrap_or((path, ""));
            if name.is_empty() {
                let why = "primary: expected its name, as in redis+sentinel://h1:26379/mymaster";
                return Err(bad(why));
            }
            db = database(number)?;
            let (user, password) =
                (query.remove("sentinel_user"), query.remove("sentinel_password"));
            let (primary, login) = (decoded(name)?, self::login(user, password)?);
            Topology::Sentinel { sentinels: endpoints, primary, login }
        }
        _ => {
            db = database(path)?;
            let mut endpoints = endpoints.into_iter();
            match (endpoints.next(), endpoints.next()) {
                (Some(endpoint), None) => Topology::Single(endpoint),
                _ => return Err(bad("server: expected one; several are redis+cluster://…")),
            }
        }
    };
    Ok(RedisUrl { topology, login, db, tls })
}

/// Who logs in where, and what follows the first slash.
struct Authority<'a> {
    login: Option<Login>,
    endpoints: Vec<Endpoint>,
    path: &'a str,
}

/// `user:password@host:port,host:port/path`
fn authority(rest: &str, default_port: u16) -> Result<Authority<'_>, StoreError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = user.split_once(':').map_or((user, None), |(a, b)| (a, Some(b)));
    let user = (!user.is_empty()).then(|| decoded(user)).transpose()?;
    let login = login(user, password.map(decoded).transpose()?)?;
    let endpoints =
        hosts.split(',').map(|host| endpoint(host, default_port)).collect::<Result<Vec<_>, _>>()?;
    if endpoints.len() > SERVERS_MAX {
        return Err(bad("servers: expected at most 64"));
    }
    Ok(Authority { login, endpoints, path })
}

/// Servers that know nothing of each other, with one login for all: `redis+KIND://[user:password@]h1:p1,h2[/db]`, and
/// `rediss+KIND://…` with the parameters of TLS.
///
/// ```
/// use tidegate_redis::ServerList;
///
/// let list = ServerList::parse("redis+quorum://10.0.0.1,10.0.0.2:6380,10.0.0.3/2", "quorum")?;
/// assert_eq!(list.endpoints[1].to_string(), "10.0.0.2:6380");
/// assert_eq!((list.db, list.login, list.tls), (2, None, None));
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerList {
    /// The servers.
    pub endpoints: Vec<Endpoint>,
    /// The login of each.
    pub login: Option<Login>,
    /// The number of the database of each.
    pub db: u32,
    /// The files of TLS; `None` without TLS.
    pub tls: Option<TlsFiles>,
}

impl ServerList {
    /// Takes a URL apart. It reads no files.
    pub fn parse(url: &str, kind: &str) -> Result<Self, StoreError> {
        let scheme_of_kind = |scheme: &str| match scheme.split_once('+') {
            Some(("redis", it)) if it == kind => Some(false),
            Some(("rediss", it)) if it == kind => Some(true),
            _ => None,
        };
        let found =
            url.split_once("://").and_then(|(scheme, rest)| Some((scheme_of_kind(scheme)?, rest)));
        let (secure, rest) = found
            .ok_or_else(|| bad(&format!("scheme: expected redis+{kind}:// or rediss+{kind}://")))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut query = parameters(query)?;
        let tls = if secure { Some(tls(&mut query)?) } else { None };
        if !query.is_empty() {
            return Err(bad("parameters: expected ca, cert and key for rediss, or none"));
        }
        let Authority { login, endpoints, path } = authority(rest, REDIS_PORT)?;
        Ok(Self { endpoints, login, db: database(path)?, tls })
    }
}

/// `host`, `host:port`, `[ipv6]:port`
fn endpoint(text: &str, default_port: u16) -> Result<Endpoint, StoreError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or(""))),
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err(bad(HOST));
    }
    let port = port.map_or(Ok(default_port), str::parse).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| bad(PORT))?;
    Ok(Endpoint::Tcp { host: host.to_owned(), port })
}

fn login(user: Option<String>, password: Option<String>) -> Result<Option<Login>, StoreError> {
    match (user, password.filter(|password| !password.is_empty())) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(bad("password: expected one with the user, as in user:password@")),
        (user, Some(password)) => Ok(Some(Login { user, password })),
    }
}

fn database(text: &str) -> Result<u32, StoreError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| bad("database: expected a number, as in redis://127.0.0.1:6379/2"))
}

fn tls(query: &mut Parameters) -> Result<TlsFiles, StoreError> {
    let mut file = |name: &str| query.remove(name).map(PathBuf::from);
    let files = TlsFiles { ca: file("ca"), cert: file("cert"), key: file("key") };
    match (&files.cert, &files.key) {
        (Some(_), None) => Err(bad("parameter key: expected one with cert")),
        (None, Some(_)) => Err(bad("parameter cert: expected one with key")),
        _ => Ok(files),
    }
}

type Parameters = BTreeMap<String, String>;

fn parameters(query: &str) -> Result<Parameters, StoreError> {
    let pair = |text: &str| {
        let (name, value) = text.split_once('=').ok_or_else(|| bad(PARAMETERS))?;
        Ok((name.to_owned(), decoded(value)?))
    };
    query.split('&').filter(|text| !text.is_empty()).map(pair).collect()
}

/// `%2F` and the like.
fn decoded(text: &str) -> Result<String, StoreError> {
    let bytes =
        percent_decoded(text).ok_or_else(|| bad("% sign: expected two hex digits after it"))?;
    String::from_utf8(bytes).map_err(|_| bad("% signs: expected UTF-8"))
}

const SCHEMES: &str = "scheme: expected redis://, rediss://, redis+unix:///path, redis+cluster://, \
    rediss+cluster://, redis+sentinel:// or rediss+sentinel://";

const HOST: &str = "host: expected host:port, as in redis://127.0.0.1:6379; in a password write \
    %40 for @, %3A for :, %2F for /, %3F for ?";

const PORT: &str = "port: expected a number from 1 to 65535; in a password write %40 for @, %3A \
    for :, %2F for /, %3F for ?";

const PARAMETERS: &str = "parameters: expected name=value with ca, cert, key for rediss; db, user, \
    pass for redis+unix; sentinel_user, sentinel_password for redis+sentinel";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_understood() {
        let rows = [
            ("redis://localhost", "Single(localhost:6379) db 0"),
            ("redis://127.0.0.1:7000/3", "Single(127.0.0.1:7000) db 3"),
            ("redis://:p%40ss@[::1]:7000", "Single([::1]:7000) db 0, login"),
            ("redis://app:pw@h", "Single(h:6379) db 0, login"),
            ("redis+unix:///run/redis.sock?db=2", "Single(/run/redis.sock) db 2"),
            ("redis+unix:///r.sock?user=a&pass=b", "Single(/r.sock) db 0, login"),
            ("redis+cluster://a:1,b,[::2]:3", "Cluster(a:1 b:6379 [::2]:3) db 0"),
            ("redis+cluster://u:p@a:1", "Cluster(a:1) db 0, login"),
            ("redis+sentinel://a,b:2/mymaster", "Sentinel mymaster(a:26379 b:2) db 0"),
            (
                "redis+sentinel://:p@a/main/4?sentinel_password=q",
                "Sentinel main(a:26379) db 4, login",
            ),
        ];
        for (url, expected) in rows {
            let RedisUrl { topology, login, db, .. } = RedisUrl::parse(url).unwrap();
            let list = |endpoints: &[Endpoint]| list(endpoints).replace(',', " ");
            let servers = match &topology {
                Topology::Single(endpoint) => format!("Single({endpoint})"),
                Topology::Cluster(seeds) => format!("Cluster({})", list(seeds)),
                Topology::Sentinel { sentinels, primary, .. } => {
                    format!("Sentinel {primary}({})", list(sentinels))
                }
            };
            let login = if login.is_some() { ", login" } else { "" };
            assert_eq!(format!("{servers} db {db}{login}"), expected, "{url}");
        }
    }

    #[test]
    fn bad_urls_say_which_part_and_never_the_password() {
        let rows = [
            ("localhost:6379", "scheme"),
            ("http://secret@h", "scheme"),
            ("redis+unix://secret", "path"),
            ("redis://:secret@h:port", "port"),
            ("redis://:sec/ret@h", "host"),
            ("redis://:sec?ret@h", "parameters"),
            ("redis://secret@h", "password"),
            ("redis://:secret@h:0", "port"),
            ("redis://:secret@", "host"),
            ("redis://:secret%4@h", "% sign"),
            ("redis://:secret@h/x", "database"),
            ("redis://:secret@h?what=1", "parameters"),
            ("redis://:secret@a,b", "server"),
            ("redis+cluster://:secret@a/1", "database"),
            ("redis+sentinel://:secret@a", "primary"),
        ];
        for (url, part) in rows {
            let error = RedisUrl::parse(url).unwrap_err().to_string();
            assert!(error.starts_with(&format!("store URL, {part}: ")), "{url}: {error}");
            assert!(!error.contains("secret") && !error.contains("ret@"), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let target = RedisUrl::parse("redis+sentinel://u:canary@a/m?sentinel_password=canary");
        assert!(!format!("{target:?}").contains("canary"));
        assert_eq!(target.unwrap().to_string(), "redis+sentinel://a:26379/m");
    }
}
