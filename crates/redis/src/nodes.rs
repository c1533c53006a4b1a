//! How many nodes share this Redis: each announces itself every few seconds, and learns how many others do.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::sleep;

use crate::client::Client;
use crate::key::Keys;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use crate::timing::jittered;

/// The longest time from one announcement to the next.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(5);

/// A node does not count after this time without an announcement: two may be lost.
const EXPIRE_AFTER: Duration = Duration::from_secs(15);

/// How many nodes there are, as far as is known; 0 before the first answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    known: Arc<AtomicU32>,
}

impl Nodes {
    /// Announces this node until the client is dropped.
    pub(crate) fn announce(client: &Client, keys: &Keys) -> Self {
        let nodes = Self::default();
        let (client, known) = (client.downgrade(), nodes.clone());
        let text = format!("{:016x} {}", RandomState::new().hash_one(0), EXPIRE_AFTER.as_micros());
        let key = keys.nodes();
        tokio::spawn(async move {
            let mut last = 0;
            // Ends with the client.
            while let Some(strong) = client.upgrade() {
                let request = ScriptRequest::announcement(key.clone(), text.clone());
                let answer = strong.submit(request, strong.due(), None);
                drop(strong);
                if let Ok(answer) = answer
                    && let Ok(ScriptReply::Nodes(count)) = answer.await
                {
                    // A lower count has to be seen twice: after Redis lost its memory, the first node that comes back would
                    // count only itself.
                    known.known.store(count.max(last), Relaxed);
                    last = count;
                }
                sleep(jittered(ANNOUNCE_EVERY)).await;
            }
        });
        nodes
    }

    pub(crate) fn count(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.known.load(Relaxed))
    }
}
