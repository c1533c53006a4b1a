//! The facts of one server. The checks read nothing else.

use std::collections::HashMap;

/// The role of a server in the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Role {
    /// It is the whole store: the URL names it.
    #[default]
    Single,
    /// It takes writes, beside others or before replicas.
    Primary,
    /// It follows a primary.
    Replica,
}

/// What could not be read is empty, and the command is in `forbidden`.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) role: Role,
    /// The `redis-cli` command for it, without the password.
    pub(super) cli: String,
    /// The user of the URL; empty if it has none.
    pub(super) user: String,
    /// Whether the server let us in without a password.
    pub(super) anonymous: bool,
    /// Whether others on the network can read what we send.
    pub(super) in_clear: bool,
    /// The prefix of all our keys.
    pub(super) prefix: String,
    /// How many tidegate processes will connect.
    pub(super) nodes: u64,
    /// `INFO`.
    pub(super) info: Fields,
    /// `CONFIG GET` of what matters here.
    pub(super) config: Fields,
    /// `CLUSTER INFO`, if it is in a cluster.
    pub(super) cluster: Fields,
    /// What the scripts need and the user may not do; `None` if that was not tried.
    pub(super) permissions: Option<Permissions>,
    /// Round trips of `PING`, sorted, in µs.
    pub(super) pings_us: Vec<u64>,
    pub(super) skew: Option<Skew>,
    pub(super) slow: Option<SlowLog>,
    /// `LATENCY LATEST`: the event, and its longest time in ms.
    pub(super) events: Vec<(String, u64)>,
    pub(super) keys: Option<KeySample>,
    /// Commands that the user may not run.
    pub(super) forbidden: Vec<&'static str>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Permissions {
    pub(super) missing: Vec<&'static str>,
    /// Whether the user may not access keys with our prefix.
    pub(super) no_keys: bool,
}

/// The server's clock minus ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Skew {
    pub(super) ahead_us: i64,
    /// Half the round trip it was measured with.
    pub(super) within_us: u64,
}

/// The log of slow commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SlowLog {
    pub(super) entries: u64,
    /// Of the last few entries.
    pub(super) slowest_us: u64,
}

/// Keys with our prefix.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct KeySample {
    pub(super) looked_at: u64,
    /// Whether these were all there are.
    pub(super) all: bool,
    pub(super) without_ttl: u64,
    /// One of them.
    pub(super) example_without_ttl: String,
    pub(super) big: u64,
    pub(super) biggest: String,
    pub(super) biggest_bytes: u64,
}

impl Facts {
    /// A command for this server, to copy.
    pub(super) fn cli(&self, command: &str) -> String {
        format!("{} {command}", self.cli)
    }

    /// A setting from `CONFIG`, or from `INFO`, which has some of them under a similar name.
    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.config.text(name).or_else(|| self.info.text(&name.replace('-', "_")))
    }

    pub(super) fn setting_number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }
}

/// Names and values, as `INFO` and `CONFIG GET` have them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Fields(HashMap<String, String>);

impl Fields {
    /// Lines `name:value`.
    pub(super) fn read(text: &str) -> Self {
        let pair = |line: &str| {
            let (name, value) = line.trim_end().split_once(':')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Self(text.lines().filter_map(pair).collect())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The first of these names that has a number, and the number.
    pub(super) fn first_number(&self, names: [&'static str; 2]) -> Option<(&'static str, i64)> {
        names.into_iter().find_map(|name| Some((name, self.text(name)?.parse().ok()?)))
    }

    pub(super) fn is(&self, name: &str, value: &str) -> bool {
        self.text(name) == Some(value)
    }

    pub(super) fn extend(&mut self, more: impl IntoIterator<Item = (String, String)>) {
        self.0.extend(more);
    }
}
