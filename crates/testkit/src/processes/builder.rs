//! What a Redis server is to be like, as lines of its configuration file.

use std::fmt::Write as _;

use super::clock::ShiftableClock;
use super::place::PrivateDir;
use super::server::RedisServer;
use super::setup::Setup;
use super::tls::TlsFiles;

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
    tls: Tls,
}

impl RedisBuilder {
    /// A line of `redis.conf`. A value with blanks or nothing in it needs its own quotes.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        writeln!(self.lines, "{name} {value}").unwrap();
        self
    }

    /// The password of the user `default`; `url` contains it.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.config("requirepass", password)
    }

    /// One more user: `user("app", "on >secret ~tg:* +@all")`.
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.config("user", &format!("{name} {rules}"))
    }

    /// Only TLS on the port, with certificates of our own: see `RedisServer::tls_files`.
    pub fn tls(mut self) -> Self {
        self.tls = Tls::Server;
        self
    }

    /// TLS, and clients have to show a certificate too.
    pub fn mutual_tls(mut self) -> Self {
        self.tls = Tls::Mutual;
        self
    }

    /// A member of a cluster, without slots. A node that does not answer for a second has failed.
    pub fn cluster_mode(self) -> Self {
        self.config("cluster-enabled", "yes")
            .config("cluster-node-timeout", "1000")
            // A replica stands for election however long it has not heard from its master.
            .config("cluster-replica-validity-factor", "0")
    }

    /// Ready once it has copied the other.
    pub fn replica_of(mut self, primary: &RedisServer) -> Self {
        self.is_replica = true;
        if let Some(password) = primary.password() {
            self = self.config("masterauth", password);
        }
        self.config("replicaof", &format!("127.0.0.1 {}", primary.port()))
    }

    /// In bytes, or like `2mb`. Without a policy nothing is evicted, and writes fail with OOM.
    pub fn max_memory(self, size: &str) -> Self {
        self.config("maxmemory", size)
    }

    /// The harness itself needs one of them for each command.
    pub fn max_clients(self, count: u32) -> Self {
        self.config("maxclients", &count.to_string())
    }

    /// Its wall clock can be shifted while it runs: see `RedisServer::shift_clock_us`.
    pub fn shiftable_clock(mut self) -> Self {
        self.shiftable_clock = true;
        self
    }

    pub(super) fn sentinel_mode(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Ready when this returns: it answers, and a replica has copied its master.
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
            clock,
            tls_files,
            dir,
        })
    }
}
