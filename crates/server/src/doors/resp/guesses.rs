//! Who may try a password, and when: nobody learns whether one is right before the wait for the last wrong one is over.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use tidegate_request::{ClientIp, Peer};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::{Instant, sleep_until};

/// Clients with a turn of their own. All others share one turn, so that many addresses do not make many guesses.
const CLIENTS_MAX: usize = 1024;

/// When the next password of a client may be compared; `None` for at once.
type NextAt = Option<Instant>;

/// The turns of all clients of a door.
#[derive(Default, Debug)]
pub(super) struct Guesses {
    clients: SyncMutex<HashMap<String, Arc<Mutex<NextAt>>>>,
    others: Arc<Mutex<NextAt>>,
}

/// The right to compare one password. While it is held, no other password of this client is compared.
#[derive(Debug)]
pub(super) struct Turn(OwnedMutexGuard<NextAt>);

impl Guesses {
    /// A turn, if the client need not wait for it.
    pub(super) fn turn_now(&self, client: String) -> Option<Turn> {
        let turn = self.of(client).try_lock_owned().ok()?;
        is_free(&turn).then_some(Turn(turn))
    }

    /// A turn, when the passwords of the client that came before have had theirs.
    pub(super) async fn turn(&self, client: String) -> Turn {
        let turn = self.of(client).lock_owned().await;
        if let Some(next_at) = *turn {
            sleep_until(next_at).await;
        }
        Turn(turn)
    }

    fn of(&self, client: String) -> Arc<Mutex<NextAt>> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = clients.get(&client) {
            return known.clone();
        }
        if clients.len() >= CLIENTS_MAX {
            clients.retain(|_, turn| turn.try_lock().map_or(true, |turn| !is_free(&turn)));
        }
        if clients.len() >= CLIENTS_MAX {
            return self.others.clone();
        }
        clients.entry(client).or_default().clone()
    }
}

impl Turn {
    /// The password was wrong: the next one is compared at `next_at`, also if this client hangs up meanwhile.
    pub(super) fn ends_at(mut self, next_at: Instant) {
        *self.0 = Some(next_at);
    }
}

fn is_free(next_at: &NextAt) -> bool {
    next_at.is_none_or(|next_at| next_at <= Instant::now())
}

/// The name under which guesses are counted: IPv6 by its network.
pub(super) fn guesser(client_ip: &ClientIp, peer: Peer) -> String {
    match peer {
        Peer::Ip(ip) => client_ip.name(ip),
        Peer::Unix | Peer::Unknown => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_wrong_password_delays_the_next_one_of_its_client_only() {
        let guesses = Guesses::default();
        let next_at = Instant::now() + Duration::from_secs(1);
        guesses.turn_now("a".to_owned()).unwrap().ends_at(next_at);
        assert!(guesses.turn_now("a".to_owned()).is_none());
        assert!(guesses.turn_now("b".to_owned()).is_some());
        drop(guesses.turn("a".to_owned()).await);
        assert!(Instant::now() >= next_at);
        let held = guesses.turn_now("a".to_owned());
        assert!(held.is_some() && guesses.turn_now("a".to_owned()).is_none(), "one at a time");
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_addresses_guess_the_table_is_bounded() {
        let guesses = Guesses::default();
        let next_at = Instant::now() + Duration::from_secs(1);
        let guess = |client: usize| {
            guesses.turn_now(client.to_string()).map(|turn| turn.ends_at(next_at)).is_some()
        };
        assert_eq!((0..2 * CLIENTS_MAX).filter(|client| guess(*client)).count(), CLIENTS_MAX + 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(guess(5 * CLIENTS_MAX), "those who waited long enough make room");
        assert_eq!(guesses.clients.lock().unwrap().len(), 1);
    }
}
