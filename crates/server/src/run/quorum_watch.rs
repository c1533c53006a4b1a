//! Logs servers of a quorum that go and come back: one that is lost changes no decision, and must not go unnoticed.

use std::time::Duration;

use tidegate::driver::{StoreServer, StoreServerState};
use tidegate::store_kit::written_life_max;
use tidegate::{Clock, SystemClock};
use tidegate_core::text::{printable, rfc3339};

use crate::metrics::{ServerCounts, StoreRole, one_line};

/// How often in a row a server has to be seen otherwise before it counts as such: a single failure may be a slow
/// connection.
const SIGHTINGS_MIN: u32 = 2;

/// The servers of one quorum, in the order of its URL.
#[derive(Debug, Default)]
pub(super) struct QuorumWatch(Vec<WatchedServer>);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ServerState {
    #[default]
    Serving,
    Recovering,
    Away,
}

#[derive(Debug, Default)]
struct WatchedServer {
    /// As it was logged; at the start it is expected to serve.
    logged: ServerState,
    next: ServerState,
    sightings: u32,
}

impl WatchedServer {
    /// Whether it has changed for good.
    fn has_changed(&mut self, now: ServerState) -> bool {
        if self.next != now {
            (self.next, self.sightings) = (now, 0);
        }
        self.sightings = self.sightings.saturating_add(1);
        let has_changed = now != self.logged && self.sightings >= SIGHTINGS_MIN;
        if has_changed {
            self.logged = now;
        }
        has_changed
    }
}

impl QuorumWatch {
    /// Logs what has changed, and counts; `None` if the store has no such servers. The states of the policies that the
    /// store counts matter for up to `longest`.
    pub(super) fn see(
        &mut self,
        role: StoreRole,
        servers: &[StoreServer],
        longest: Duration,
    ) -> Option<ServerCounts> {
        self.0.resize_with(servers.len(), WatchedServer::default);
        for (watched, server) in self.0.iter_mut().zip(servers) {
            if watched.has_changed(state(&server.state, longest)) {
                log(role, server, longest);
            }
        }
        let count = |state| self.0.iter().filter(|it| it.logged == state).count() as u64;
        (!servers.is_empty()).then(|| ServerCounts {
            serving: count(ServerState::Serving),
            recovering: count(ServerState::Recovering),
            away: count(ServerState::Away),
        })
    }
}

fn state(seen: &StoreServerState, longest: Duration) -> ServerState {
    match seen {
        StoreServerState::Forgot { ago } if *ago < written_life_max(longest) => {
            ServerState::Recovering
        }
        StoreServerState::Serving | StoreServerState::Forgot { .. } => ServerState::Serving,
        StoreServerState::Away(_) => ServerState::Away,
    }
}

fn log(role: StoreRole, server: &StoreServer, longest: Duration) {
    let (store, address) = (role.as_str(), printable(&server.address));
    match &server.state {
        StoreServerState::Away(error) => tracing::warn!(
            store,
            server = address,
            error = one_line(error),
            "a server of the quorum does not answer: the others decide without it, as long as they are a majority"
        ),
        StoreServerState::Forgot { ago } if *ago < written_life_max(longest) => {
            let left = written_life_max(longest).saturating_sub(*ago);
            tracing::warn!(
                store,
                server = address,
                serves_again = rfc3339(SystemClock.now() + left),
                "a server of the quorum has lost its data: for each policy, it does not count until the policy's \
                 longest window has passed"
            );
        }
        StoreServerState::Serving | StoreServerState::Forgot { .. } => {
            tracing::info!(store, server = address, "a server of the quorum serves again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_changed_when_it_was_seen_so_twice() {
        use ServerState::{Away, Recovering, Serving};
        let mut server = WatchedServer::default();
        for (seen, has_changed) in [
            (Serving, false),
            (Away, false),
            (Serving, false),
            (Away, false),
            (Away, true),
            (Away, false),
            (Recovering, false),
            (Recovering, true),
            (Serving, false),
            (Serving, true),
            (Serving, false),
        ] {
            assert_eq!(server.has_changed(seen), has_changed, "{seen:?}");
        }
    }

    #[test]
    fn a_server_recovers_until_the_longest_window_and_the_margin_have_passed() {
        let minute = Duration::from_mins(1);
        let forgot = |seconds| StoreServerState::Forgot { ago: Duration::from_secs(seconds) };
        assert_eq!(state(&forgot(70), minute), ServerState::Recovering);
        assert_eq!(state(&forgot(71), minute), ServerState::Serving);
    }
}
