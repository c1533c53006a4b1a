//! A store's URL as text, and what it means.

use tidegate::{StoreError, StoreErrorKind};

const PORT: u16 = 11_211;

/// More servers than this in one URL are a mistake.
const SERVERS_MAX: usize = 64;

/// More connections of one process to one server than this are a mistake.
const CONNECTIONS_MAX: usize = 100;

const CONNECTIONS: usize = 4;

/// A URL of memcached, taken apart.
///
/// ```
/// use tidegate_memcached::MemcachedUrl;
///
/// let url = MemcachedUrl::parse("memcached://10.0.0.1,10.0.0.2:11212?connections=2")?;
/// assert_eq!(url.servers, ["10.0.0.1:11211", "10.0.0.2:11212"]);
/// assert_eq!(url.connections, 2);
///
/// let error = MemcachedUrl::parse("memcached://10.0.0.1:port").unwrap_err();
/// assert!(error.to_string().contains("port: expected a number"), "{error}");
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemcachedUrl {
    /// `host:port` of each server. All nodes have to name the same ones; the order does not matter.
    pub servers: Vec<String>,
    /// The most connections of this process to each server; 4.
    pub connections: usize,
}

impl MemcachedUrl {
    /// How URLs begin.
    ///
    /// ```
    /// # use tidegate_memcached::MemcachedUrl;
    /// assert_eq!(MemcachedUrl::SCHEMES, ["memcached://"]);
    /// ```
    pub const SCHEMES: &'static [&'static str] = &["memcached://"];

    /// Takes a URL apart.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let rest =
            url.strip_prefix("memcached://").ok_or_else(|| bad("expected memcached://HOST"))?;
        let (hosts, query) = rest.split_once('?').unwrap_or((rest, ""));
        if hosts.contains('@') {
            return Err(bad(
                "user: memcached's text protocol has no passwords; keep it on a network of its own",
            ));
        }
        let hosts = hosts.strip_suffix('/').unwrap_or(hosts);
        let servers = hosts.split(',').map(server).collect::<Result<Vec<_>, _>>()?;
        if servers.len() > SERVERS_MAX {
            return Err(bad("servers: expected at most 64"));
        }
        let twice = |index: usize| servers[..index].contains(&servers[index]);
        if (1..servers.len()).any(twice) {
            return Err(bad("servers: one is named twice"));
        }
        let connections = match query.split_once('=') {
            None if query.is_empty() => CONNECTIONS,
            Some(("connections", value)) => {
                let count =
                    value.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
                count.ok_or_else(|| bad("connections: expected 1 to 100"))?
            }
            _ => return Err(bad("parameters: expected connections=N or none")),
        };
        Ok(Self { servers, connections })
    }
}

/// `host`, `host:port` or `[IPv6]:port`, with the port.
fn server(text: &str) -> Result<String, StoreError> {
    let after_brackets = text.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match text[after_brackets..].rfind(':') {
        Some(colon) => (&text[..after_brackets + colon], Some(&text[after_brackets + colon + 1..])),
        None => (text, None),
    };
    let plain =
        |host: &str| host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/\\?#".contains(&byte));
    if host.is_empty() || !plain(host) || (after_brackets == 0 && host.contains(':')) {
        return Err(bad("host: expected host:port, as in memcached://127.0.0.1:11211"));
    }
    let port = port.map_or(Ok(PORT), |port| port.parse().ok().filter(|port| *port > 0).ok_or(()));
    let port: u16 = port.map_err(|()| bad("port: expected a number from 1 to 65535"))?;
    Ok(format!("{host}:{port}"))
}

fn bad(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadRequest, format!("store URL, {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_urls_say_which_part() {
        for (url, part) in [
            ("memcached://", "host"),
            ("memcached://a,,b", "host"),
            ("memcached://a:0", "port"),
            ("memcached://a:65536", "port"),
            ("memcached://a:1:2", "host"),
            ("memcached://a b", "host"),
            ("memcached://user:secret@a", "user"),
            ("memcached://a,a:11211", "twice"),
            ("memcached://a?x=1", "parameters"),
            ("memcached://a?connections=0", "connections"),
        ] {
            let error = MemcachedUrl::parse(url).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{url}: {error}");
        }
        assert_eq!(MemcachedUrl::parse("memcached://[::1]").unwrap().servers, ["[::1]:11211"]);
        assert_eq!(MemcachedUrl::parse("memcached://[::1]:1/").unwrap().servers, ["[::1]:1"]);
    }
}
