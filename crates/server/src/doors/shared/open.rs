//! What `run` needs to open a door. Each door implements it in its own folder.

use std::sync::Arc;

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

/// A policy to try a door with.
pub(crate) fn first_policy(config: &Config) -> Option<String> {
    config.policies.keys().next().map(|name| printable(name))
}
