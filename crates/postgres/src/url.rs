//! A store's URL as text, and what it means.

use std::path::PathBuf;
use std::str::FromStr;

use tidegate::{StoreError, StoreErrorKind};
use tidegate_core::text::percent_decoded;
use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};

/// What a crash of the server loses.
///
/// ```
/// use tidegate_postgres::{Durability, PostgresUrl};
///
/// let url = PostgresUrl::parse("postgres://app@10.0.0.1/app?durability=unlogged")?;
/// assert_eq!(url.durability, Durability::Unlogged);
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Durability {
    /// Nothing: each batch is on disk before it is answered.
    #[default]
    Full,
    /// What was decided in the last moments, by default at most 0.6 s: `synchronous_commit = off`.
    Asynchronous,
    /// Everything: the table is emptied. A clean restart keeps it.
    Unlogged,
}

/// A URL of PostgreSQL, taken apart: that of libpq with a few parameters more.
///
/// ```
/// use tidegate_postgres::{Durability, PostgresUrl};
///
/// let url = PostgresUrl::parse("postgres://app:secret@10.0.0.1,10.0.0.2/app?connections=4")?;
/// assert_eq!((url.connections, url.durability), (4, Durability::Full));
///
/// // An error names the parameter, and never repeats a password.
/// let error = PostgresUrl::parse("postgres://app:secret@h/app?durability=none").unwrap_err();
/// assert!(error.to_string().contains("durability: expected full, async or unlogged"), "{error}");
/// # Ok::<(), tidegate::StoreError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// Where and as whom to connect. Writes to the primary, of however many servers are named.
    pub config: Config,
    /// What a crash loses.
    pub durability: Durability,
    /// The most connections of this process; 8.
    pub connections: usize,
    /// The file of the authority that signs the server's certificate; the system's authorities if there is none.
    pub ca: Option<PathBuf>,
    /// A certificate to show, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
    /// The file that the password is in.
    pub password_file: Option<PathBuf>,
}

/// More connections of one process than this are a mistake.
const CONNECTIONS_MAX: usize = 100;

const CONNECTIONS: usize = 8;

/// More servers than this in one URL are a mistake.
const SERVERS_MAX: usize = 16;

impl PostgresUrl {
    /// How URLs begin.
    ///
    /// ```
    /// # use tidegate_postgres::PostgresUrl;
    /// assert_eq!(PostgresUrl::SCHEMES, ["postgres://", "postgresql://"]);
    /// ```
    pub const SCHEMES: &'static [&'static str] = &["postgres://", "postgresql://"];

    /// Takes a URL apart. It reads no files.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut ours = Ours::default();
        let mut theirs = Vec::new();
        for parameter in query.split('&').filter(|it| !it.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            if !ours.take(name, value)? {
                theirs.push(parameter);
            }
        }
        let plain = if theirs.is_empty() {
            base.to_owned()
        } else {
            format!("{base}?{}", theirs.join("&"))
        };
        // Its message repeats no value.
        let mut config = Config::from_str(&plain).map_err(|error| bad(&with_cause(&error)))?;
        if config.get_hosts().is_empty() {
            return Err(bad("expected postgres://USER@HOST/DATABASE"));
        }
        if config.get_hosts().len() > SERVERS_MAX {
            return Err(bad("hosts: expected at most 16"));
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("tidegate");
        }
        let Ours { durability, connections, ca, cert, key, password_file, verify } = ours;
        if verify {
            config.ssl_mode(SslMode::Require);
        }
        if config.get_ssl_mode() == SslMode::Prefer {
            // Falling back to plain text would only look secure.
            config.ssl_mode(if ca.is_some() { SslMode::Require } else { SslMode::Disable });
        }
        let own = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(bad("sslcert and sslkey: expected both or none")),
        };
        if password_file.is_some() && config.get_password().is_some() {
            return Err(bad("password_file: the URL has a password already"));
        }
        Ok(Self { config, durability, connections, ca, own, password_file })
    }

    /// Where to connect, with the password from its file if it has one.
    pub(crate) fn with_password(&self) -> Result<Config, StoreError> {
        let mut config = self.config.clone();
        if let Some(file) = &self.password_file {
            let text = std::fs::read_to_string(file)
                .map_err(|error| bad(&format!("password_file: {error}")))?;
            config.password(text.trim_end_matches(['\r', '\n']));
        }
        Ok(config)
    }

    /// Whether connections are encrypted.
    pub(crate) fn uses_tls(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }

    #[cfg(feature = "tls")]
    pub(crate) fn own_files(&self) -> Option<(&std::path::Path, &std::path::Path)> {
        self.own.as_ref().map(|(cert, key)| (cert.as_path(), key.as_path()))
    }
}

impl std::fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresUrl")
            .field("hosts", &self.config.get_hosts())
            .finish_non_exhaustive()
    }
}

/// The parameters that libpq's URL does not have, or that the client library does not read.
struct Ours {
    durability: Durability,
    connections: usize,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    password_file: Option<PathBuf>,
    verify: bool,
}

impl Default for Ours {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            connections: CONNECTIONS,
            ca: None,
            cert: None,
            key: None,
            password_file: None,
            verify: false,
        }
    }
}

impl Ours {
    /// Whether the parameter is one of these.
    fn take(&mut self, name: &str, value: &str) -> Result<bool, StoreError> {
        let file = || Ok::<_, StoreError>(Some(PathBuf::from(decoded(value)?)));
        match name {
            "durability" => {
                self.durability = match value {
                    "full" => Durability::Full,
                    "async" => Durability::Asynchronous,
                    "unlogged" => Durability::Unlogged,
                    _ => return Err(bad("durability: expected full, async or unlogged")),
                }
            }
            "connections" => {
                let count =
                    value.parse().ok().filter(|count| (1..=CONNECTIONS_MAX).contains(count));
                self.connections = count.ok_or_else(|| bad("connections: expected 1 to 100"))?;
            }
            "sslrootcert" => self.ca = file()?,
            "sslcert" => self.cert = file()?,
            "sslkey" => self.key = file()?,
            "password_file" => self.password_file = file()?,
            // Certificates are always verified, the name in them too.
            "sslmode" if matches!(value, "verify-full" | "require") => self.verify = true,
            "sslmode" if !matches!(value, "disable" | "prefer") => {
                return Err(bad("sslmode: expected disable, require or verify-full"));
            }
            "target_session_attrs" if value == "read-write" => {}
            "target_session_attrs" => {
                return Err(bad("target_session_attrs: expected read-write: every check writes"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn decoded(text: &str) -> Result<String, StoreError> {
    let bytes = percent_decoded(text).and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| bad("% signs: expected two hex digits after each, and UTF-8"))
}

fn with_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn bad(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BadRequest, format!("store URL, {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_urls_say_which_part_and_never_the_password() {
        for (parameters, part) in [
            ("durability=none", "durability"),
            ("connections=0", "connections"),
            ("connections=101", "connections"),
            ("sslmode=allow", "sslmode"),
            ("sslcert=/c.pem", "sslkey"),
            ("password_file=/p", "password_file"),
            ("target_session_attrs=any", "every check writes"),
            ("sslrootcert=%zz", "% signs"),
            ("wrong=1", "wrong"),
        ] {
            let url = format!("postgres://app:secret@h/app?{parameters}");
            let error = PostgresUrl::parse(&url).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{parameters}: {error}");
        }
        assert!(PostgresUrl::parse("postgres:///app").is_err(), "no host");
        let many = format!("postgres://app@{}/app", vec!["h"; 17].join(","));
        assert!(PostgresUrl::parse(&many).unwrap_err().to_string().contains("at most 16"));
    }

    #[test]
    fn connections_are_plain_or_verified_and_never_fall_back() {
        for (parameters, is_secret) in [
            ("", false),
            ("?sslmode=disable", false),
            ("?sslmode=prefer", false),
            ("?sslmode=prefer&sslrootcert=/ca.pem", true),
            ("?sslmode=require", true),
            ("?sslmode=verify-full&sslrootcert=/ca.pem", true),
        ] {
            let url = PostgresUrl::parse(&format!("postgres://app@h1,h2/app{parameters}")).unwrap();
            assert_eq!(url.uses_tls(), is_secret, "{parameters}");
            assert_eq!(url.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
            assert_ne!(url.config.get_ssl_mode(), SslMode::Prefer, "{parameters}");
        }
    }

    #[test]
    fn a_password_comes_from_its_file_without_the_line_end() {
        let file = std::env::temp_dir().join(format!("tidegate-password-{}", std::process::id()));
        std::fs::write(&file, "hunter2\n").unwrap();
        let url = format!("postgres://app@h/app?password_file={}", file.display());
        let config = PostgresUrl::parse(&url).unwrap().with_password();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(config.unwrap().get_password(), Some(&b"hunter2"[..]));
        let gone = PostgresUrl::parse(&url).unwrap().with_password().unwrap_err();
        assert!(gone.to_string().contains("password_file"), "{gone}");
    }
}
