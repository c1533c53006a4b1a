//! A store's URL as text, and as what it means. Nothing of a bad one is repeated: it may hold a password.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::place::{Access, Login, Place, Tls};
use tidegate::{StoreError, StoreErrorKind};

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26_379;

/// More servers than this in one URL are a mistake.
const SERVERS_MAX: usize = 64;

/// Where Redis is, and how to enter.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) servers: Servers,
    pub(super) access: Access,
}

#[derive(Clone, Debug)]
pub(super) enum Servers {
    Single(Place),
    /// Any of these knows the others.
    Cluster(Vec<Place>),
    Sentinel(Sentinels),
}

/// Any of these knows the primary of this name.
#[derive(Clone, Debug)]
pub(super) struct Sentinels {
    pub(super) places: Vec<Place>,
    pub(super) name: String,
    pub(super) access: Access,
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
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
        let target = if kind == "unix" {
            unix(rest, &mut query)?
        } else {
            let tls = if secure { Some(tls(&mut query)?) } else { None };
            network(kind, rest, tls, &mut query)?
        };
        if !query.is_empty() {
            return Err(bad(PARAMETERS));
        }
        Ok(target)
    }
}

/// `/path?db=&user=&pass=`
fn unix(path: &str, query: &mut Parameters) -> Result<Target, StoreError> {
    if !path.starts_with('/') {
        return Err(bad("path: expected redis+unix:///path/to/redis.sock"));
    }
    let db = query.remove("db").map_or(Ok(0), |text| database(&text))?;
    let login = login(query.remove("user"), query.remove("pass"))?;
    let servers = Servers::Single(Place::Unix(PathBuf::from(decoded(path)?)));
    Ok(Target { servers, access: Access { login, db, tls: None } })
}

/// `user:password@host:port,host:port/path`
fn network(
    kind: &str,
    rest: &str,
    tls: Option<Tls>,
    query: &mut Parameters,
) -> Result<Target, StoreError> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = user.split_once(':').map_or((user, None), |(a, b)| (a, Some(b)));
    let user = (!user.is_empty()).then(|| decoded(user)).transpose()?;
    let login = login(user, password.map(decoded).transpose()?)?;
    let port = if kind == "sentinel" { SENTINEL_PORT } else { REDIS_PORT };
    let places = hosts.split(',').map(|host| place(host, port)).collect::<Result<Vec<_>, _>>()?;
    if places.len() > SERVERS_MAX {
        return Err(bad("servers: expected at most 64"));
    }
    let mut access = Access { login, db: 0, tls };
    let servers = match kind {
        "cluster" if path.is_empty() => Servers::Cluster(places),
        "cluster" => return Err(bad("database: a cluster has only one, so expected no path")),
        "sentinel" => {
            let (name, db) = path.split_once('/').unwrap_or((path, ""));
            if name.is_empty() {
                let why = "primary: expected its name, as in redis+sentinel://h1:26379/mymaster";
                return Err(bad(why));
            }
            access.db = database(db)?;
            let (user, password) =
                (query.remove("sentinel_user"), query.remove("sentinel_password"));
            let own = Access { login: self::login(user, password)?, db: 0, ..access.clone() };
            Servers::Sentinel(Sentinels { places, name: decoded(name)?, access: own })
        }
        _ => {
            access.db = database(path)?;
            let mut places = places.into_iter();
            match (places.next(), places.next()) {
                (Some(place), None) => Servers::Single(place),
                _ => return Err(bad("server: expected one; several are redis+cluster://…")),
            }
        }
    };
    Ok(Target { servers, access })
}

/// `host`, `host:port`, `[ipv6]:port`
fn place(text: &str, default_port: u16) -> Result<Place, StoreError> {
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
    Ok(Place::Tcp { host: host.to_owned(), port })
}

fn login(user: Option<String>, password: Option<String>) -> Result<Option<Login>, StoreError> {
    match (user, password.filter(|password| !password.is_empty())) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(bad("password: expected one with the user, as in user:password@")),
        (user, Some(password)) => Ok(Some(Login::new(user, password))),
    }
}

fn database(text: &str) -> Result<u32, StoreError> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| bad("database: expected a number, as in redis://127.0.0.1:6379/2"))
}

#[cfg(feature = "tls")]
fn tls(query: &mut Parameters) -> Result<Tls, StoreError> {
    let mut file = |name: &str| query.remove(name).map(PathBuf::from);
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    let own = match (&cert, &key) {
        (Some(cert), Some(key)) => Some((cert.as_path(), key.as_path())),
        (None, None) => None,
        (Some(_), None) => return Err(bad("parameter key: expected one with cert")),
        (None, Some(_)) => return Err(bad("parameter cert: expected one with key")),
    };
    Tls::new(ca.as_deref(), own).map_err(|why| bad(&why))
}

#[cfg(not(feature = "tls"))]
fn tls(_: &mut Parameters) -> Result<Tls, StoreError> {
    Err(bad("scheme: rediss needs the feature `tls`"))
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
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let byte = piece.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.ok_or_else(|| bad("% sign: expected two hex digits after it"))?);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
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

fn bad(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadRequest, format!("store URL, {why}"))
}

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
            let Target { servers, access } = Target::parse(url).unwrap();
            let list = |places: &[Place]| {
                places.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            };
            let servers = match &servers {
                Servers::Single(place) => format!("Single({place})"),
                Servers::Cluster(places) => format!("Cluster({})", list(places)),
                Servers::Sentinel(Sentinels { places, name, .. }) => {
                    format!("Sentinel {name}({})", list(places))
                }
            };
            let login = if access.login.is_some() { ", login" } else { "" };
            assert_eq!(format!("{servers} db {}{login}", access.db), expected, "{url}");
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
            let error = Target::parse(url).unwrap_err().to_string();
            assert!(error.starts_with(&format!("bad-ask: store URL, {part}: ")), "{url}: {error}");
            assert!(!error.contains("secret") && !error.contains("ret@"), "{error}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let target = Target::parse("redis+sentinel://u:canary@a/m?sentinel_password=canary");
        assert!(!format!("{target:?}").contains("canary"));
    }
}
