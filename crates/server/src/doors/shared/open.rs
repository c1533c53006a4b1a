//! What `run` needs to open a door. Each door implements it in its own folder.

use std::sync::Arc;

use tidegate::{Engine, Member, PolicyKind};
use tidegate_config::{Address, Config};
use tidegate_core::text::printable;

use crate::dashboard::Feed;
use crate::net::ConnectionHandler;
use crate::service::AppState;

/// What doors are built from.
pub(crate) struct DoorContext<'a> {
    pub(crate) app: &'a Arc<AppState>,
    pub(crate) feed: &'a Arc<Feed>,
    pub(crate) config: &'a Config,
}

/// A door that `run` can open.
pub(crate) trait OpenDoor: ConnectionHandler + Sync {
    /// The log message once it listens.
    const LISTENING: &'static str;

    /// Builds the door as configured; the error says why that failed.
    fn build(context: &DoorContext<'_>) -> Result<Self, String>;

    /// Printed once it listens: where, and a command to try it.
    fn welcome(address: &Address, scheme: &str, config: &Config) -> String;
}

/// A check to try a door with: a policy that can be checked, and what it counts by.
pub(crate) struct ExampleCheck {
    pub(crate) policy: String,
    /// Empty where the policy counts by one key.
    names: Vec<String>,
}

impl ExampleCheck {
    /// The checks of all policies that can be checked, in the order of their names. One that delays or grants permits is
    /// asked another way.
    pub(crate) fn all(config: &Config) -> impl Iterator<Item = Self> {
        config.policies.iter().filter_map(|(name, policy)| {
            let engine = Engine::builder().policy(name.clone(), policy.clone()).build().ok()?;
            let handle =
                engine.policy_ref(name).ok().filter(|it| it.kind() == PolicyKind::Limits)?;
            let key = |member: &Member| member.key.clone();
            let mut names: Vec<_> = handle.members().filter_map(key).collect();
            names.retain(|name| name != "global");
            names.sort_unstable();
            names.dedup();
            Some(Self { policy: printable(name), names })
        })
    }

    pub(crate) const fn has_one_key(&self) -> bool {
        self.names.is_empty()
    }

    /// As the body of a request.
    pub(crate) fn json(&self) -> String {
        let policy = &self.policy;
        if self.has_one_key() {
            return format!("{{\"policy\":\"{policy}\",\"key\":\"user-42\"}}");
        }
        let pair = |name: &String| {
            let value = match name.as_str() {
                "client_ip" | "ip" => "203.0.113.9",
                "url" | "path" => "/",
                _ => "user-42",
            };
            format!("\"{}\":\"{value}\"", printable(name))
        };
        let keys: Vec<_> = self.names.iter().map(pair).collect();
        format!("{{\"policy\":\"{policy}\",\"keys\":{{{}}}}}", keys.join(","))
    }
}
