//! How many nodes share this Redis: each announces itself every few seconds, and learns how many others do.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::sleep;

use super::backoff::jittered;
use super::client::Client;
use super::key::Keys;
use super::question::{Outcome, Question};

/// At most so long from one announcement to the next.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(5);

/// Who has not been heard of for so long is gone: two announcements may be lost.
const GONE_AFTER: Duration = Duration::from_secs(15);

/// How many nodes there are, as far as is known; 0 before the first answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Nodes {
    known: Arc<AtomicU32>,
}

impl Nodes {
    /// Announces this node for as long as somebody else has the client.
    pub(super) fn announce(client: &Client, keys: &Keys) -> Self {
        let nodes = Self::default();
        let (client, known) = (client.downgrade(), nodes.clone());
        let text = format!("{:016x} {}", RandomState::new().hash_one(0), GONE_AFTER.as_micros());
        let key = keys.nodes();
        tokio::spawn(async move {
            let mut last = 0;
            // Ends with the client.
            while let Some(strong) = client.upgrade() {
                let question = Question::of_announcement(key.clone(), text.clone());
                let answer = strong.submit(question, strong.due());
                drop(strong);
                if let Ok(answer) = answer
                    && let Ok(Outcome::Nodes(count)) = answer.await
                {
                    // Of a fall only what is seen twice: after Redis lost its memory, the first who comes back would
                    // think itself alone.
                    known.known.store(count.max(last), Relaxed);
                    last = count;
                }
                sleep(jittered(ANNOUNCE_EVERY)).await;
            }
        });
        nodes
    }

    pub(super) fn count(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.known.load(Relaxed))
    }
}
