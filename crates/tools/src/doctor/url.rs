//! A store's URL taken apart into the servers that it names.

use std::borrow::Cow;
use std::collections::HashMap;

use super::place::TlsFiles;

/// What a store's URL names. Read as the client of the store reads it, which has found it to make sense.
#[derive(Debug)]
pub(super) enum Target {
    One { url: String, files: TlsFiles },
    Cluster(Seeds),
    Sentinel { seeds: Seeds, primary: String },
}

/// Servers that know the others.
#[derive(Debug)]
pub(super) struct Seeds {
    /// `redis` or `rediss`.
    scheme: &'static str,
    /// `user:password@` as it stands in the URL, or nothing.
    access: String,
    /// The same for sentinels.
    sentinel_access: String,
    pub(super) hosts: Vec<String>,
    pub(super) files: TlsFiles,
}

impl Target {
    pub(super) fn read(url: &str) -> Self {
        let (bare, query) = url.split_once('?').unwrap_or((url, ""));
        let query = parameters(query);
        let of = |name: &str| query.get(name).cloned();
        let files = TlsFiles { ca: of("ca"), cert: of("cert"), key: of("key") };
        let (scheme, rest) = bare.split_once("://").unwrap_or(("", bare));
        let (scheme, kind) = scheme.split_once('+').unwrap_or((scheme, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (access, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let mut seeds = Seeds {
            scheme: if scheme == "rediss" { "rediss" } else { "redis" },
            access: if access.is_empty() { String::new() } else { format!("{access}@") },
            sentinel_access: sentinel_access(url),
            hosts: hosts.split(',').map(str::to_owned).collect(),
            files,
        };
        match kind {
            "cluster" => Self::Cluster(seeds),
            "sentinel" => {
                seeds.hosts = seeds.hosts.into_iter().map(with_sentinel_port).collect();
                let primary = path.split('/').next().unwrap_or_default().to_owned();
                Self::Sentinel { seeds, primary }
            }
            // A socket has its user and password after the question mark.
            "unix" => Self::One { url: url.to_owned(), files: seeds.files },
            _ => Self::One { url: bare.to_owned(), files: seeds.files },
        }
    }
}

impl Seeds {
    /// The URL of one of the servers; `host` has its port.
    pub(super) fn url(&self, host: &str) -> String {
        format!("{}://{}{host}", self.scheme, self.access)
    }

    pub(super) fn sentinel_url(&self, host: &str) -> String {
        format!("{}://{}{host}", self.scheme, self.sentinel_access)
    }
}

/// What stands after the question mark, decoded.
fn parameters(query: &str) -> HashMap<String, String> {
    // As in a path, a plus is a plus.
    let query = query.replace('+', "%2B");
    let url = redis::parse_redis_url(&format!("redis://h/?{query}"));
    let own = |(name, value): (Cow<'_, str>, Cow<'_, str>)| (name.into_owned(), value.into_owned());
    url.map(|url| url.query_pairs().map(own).collect()).unwrap_or_default()
}

/// `user:password@` from the parameters, still encoded.
fn sentinel_access(url: &str) -> String {
    let query = url.split_once('?').map_or("", |it| it.1);
    let of =
        |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let user = of("sentinel_user").unwrap_or_default();
    of("sentinel_password").map_or(String::new(), |password| format!("{user}:{password}@"))
}

fn with_sentinel_port(host: String) -> String {
    if host.ends_with(']') || !host.contains(':') { format!("{host}:26379") } else { host }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let hosts = |url: &str| match Target::read(url) {
            Target::One { url, files } => vec![format!("{url}{}", files.ca.unwrap_or_default())],
            Target::Cluster(seeds) => seeds.hosts.iter().map(|host| seeds.url(host)).collect(),
            Target::Sentinel { seeds, primary } => {
                let both = |it: &String| format!("{} {primary}", seeds.sentinel_url(it));
                seeds.hosts.iter().map(both).collect()
            }
        };
        for (url, expected) in [
            ("redis://a:1/2", &["redis://a:1/2"][..]),
            ("rediss://a:1?ca=/a%20b+c", &["rediss://a:1/a b+c"]),
            ("redis+unix:///r?pass=x", &["redis+unix:///r?pass=x"]),
            ("redis+cluster://a:1,b:2", &["redis://a:1", "redis://b:2"]),
            ("rediss+cluster://u:p@a:1,[::1]:2", &["rediss://u:p@a:1", "rediss://u:p@[::1]:2"]),
            ("redis+sentinel://u:p@a,b:2/m/0", &["redis://a:26379 m", "redis://b:2 m"]),
            ("redis+sentinel://[::1]/m?sentinel_password=q", &["redis://:q@[::1]:26379 m"]),
        ] {
            assert_eq!(hosts(url), expected, "{url}");
        }
    }
}
