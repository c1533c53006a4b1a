//! The options of a Redis server, as lines of its configuration file.

use std::fmt::Write as _;

use super::clock::ShiftableClock;
use super::scratch::PrivateDir;
use super::server::RedisServer;
use super::setup::Setup;
use super::tls::TlsFiles;

/// Where `./dev clients` installs it.
const VALKEY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/clients/valkey/bin/valkey-server");

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Tls {
    #[default]
    Off,
    Server,
    Mutual,
}

#[derive(Debug, Default)]
#[must_use = "it is started by `start`"]
pub struct RedisBuilder {
    lines: String,
    password: Option<String>,
    is_replica: bool,
    is_sentinel: bool,
    shiftable_clock: bool,
    /// Instead of Redis.
    program: Option<&'static str>,
    tls: Tls,
}

impl RedisBuilder {
    /// Adds a line to `redis.conf`. An empty value or one with blanks needs quotes.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        writeln!(self.lines, "{name} {value}").unwrap();
        self
    }

    /// Sets the password of the user `default`; `url` contains it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.config("requirepass", password)
    }

    /// Adds a user: `user("app", "on >secret ~tg:* +@all")`.
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.config("user", &format!("{name} {rules}"))
    }

    /// Serves only TLS on the port, with generated certificates: see `RedisServer::tls_files`.
    pub fn tls(mut self) -> Self {
        self.tls = Tls::Server;
        self
    }

    /// TLS with client certificates.
    pub fn mutual_tls(mut self) -> Self {
        self.tls = Tls::Mutual;
        self
    }

    /// A member of a cluster, without slots. A node that does not answer for a second has failed.
    pub fn cluster_mode(self) -> Self {
        self.config("cluster-enabled", "yes")
            .config("cluster-node-timeout", "1000")
            // A replica may be elected however long it was disconnected from its master.
            .config("cluster-replica-validity-factor", "0")
    }

    /// A replica of `primary`, ready when it has copied the data.
    pub fn replica_of(mut self, primary: &RedisServer) -> Self {
        self.is_replica = true;
        if let Some(password) = primary.password() {
            self = self.config("masterauth", password);
        }
        self.config("replicaof", &format!("127.0.0.1 {}", primary.port()))
    }

    /// Sets `maxmemory`, in bytes or like `2mb`. Without an eviction policy writes then fail with OOM.
    pub fn max_memory(self, size: &str) -> Self {
        self.config("maxmemory", size)
    }

    /// Sets `maxclients`. Every command of the test harness needs one connection.
    pub fn max_clients(self, count: u32) -> Self {
        self.config("maxclients", &count.to_string())
    }

    /// Makes the wall clock of the server shiftable while it runs: see `RedisServer::shift_clock_us`.
    pub fn shiftable_clock(mut self) -> Self {
        self.shiftable_clock = true;
        self
    }

    /// A Valkey server instead of Redis.
    pub fn valkey(mut self) -> Self {
        self.program = Some(VALKEY);
        self
    }

    pub(super) fn sentinel_mode(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Starts the server. Returns when it answers and, as a replica, has copied its primary.
    pub fn start(mut self) -> RedisServer {
        let dir = PrivateDir::new();
        let clock = self.shiftable_clock.then(|| ShiftableClock::build(&dir));
        let tls_files = (self.tls != Tls::Off).then(|| {
            let (files, lines) = TlsFiles::create(&dir, self.tls == Tls::Mutual);
            self.lines += &lines;
            files
        });
        RedisServer::start_as(Setup {
            lines: self.lines,
            password: self.password,
            is_replica: self.is_replica,
            is_sentinel: self.is_sentinel,
            program: self.program.unwrap_or("redis-server"),
            clock,
            tls_files,
            dir,
        })
    }
}
