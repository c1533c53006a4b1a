//! How many nodes share the store: each announces itself every few seconds, and learns how many others do.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate::store_kit::PartReader;
use tidegate::{StoreError, Timestamp};
use tokio::time::{Instant, sleep};

use crate::backend::{Backend, ItemKey};
use crate::lanes::{Lanes, random_percent};
use crate::records::foreign;
use crate::step::{Step, Working};

/// The time from one announcement to the next.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(5);

/// A node does not count after this time without an announcement: two may be lost.
const EXPIRE_AFTER: Duration = Duration::from_secs(15);

/// An announcement that takes longer is given up.
const ANNOUNCE_DEADLINE: Duration = Duration::from_secs(1);

/// Announcements beyond this number are not kept.
const NODES_MAX: usize = 10_000;

/// How many nodes there are, as far as is known; 0 before the first answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    known: Arc<AtomicU32>,
}

impl Nodes {
    /// Announces this node until the store is dropped.
    pub(crate) fn announce<B: Backend>(lanes: &Arc<Lanes<B>>, key: ItemKey) -> Self {
        let nodes = Self::default();
        let (lanes, known) = (Arc::downgrade(lanes), nodes.known.clone());
        let random = RandomState::new();
        let id = random.hash_one(0);
        tokio::spawn(async move {
            let mut last = 0;
            // Ends with the store.
            while let Some(strong) = lanes.upgrade() {
                let announce = move |items: &mut [Working], now| match items {
                    [item] => note(item, id, now),
                    _ => Err(foreign()),
                };
                let due = Instant::now() + ANNOUNCE_DEADLINE;
                let (step, reply) = Step::new(vec![key.clone()], announce, Timestamp::EPOCH, due);
                strong.submit(strong.lane_of(&key), step.on_records());
                drop(strong);
                if let Ok(count) = reply.await {
                    // A lower count has to be seen twice: after a store lost its memory, the first node that comes back
                    // would count only itself.
                    known.store(count.max(last), Relaxed);
                    last = count;
                }
                // At different times in different processes.
                let jitter = ANNOUNCE_EVERY / 5 * random_percent(&random, id) / 100;
                sleep(ANNOUNCE_EVERY.saturating_sub(jitter)).await;
            }
        });
        nodes
    }

    pub(crate) fn count(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.known.load(Relaxed))
    }
}

/// Notes that a node was heard of now, and counts all that were of late.
fn note(item: &mut Working, id: u64, now: Timestamp) -> Result<u32, StoreError> {
    let mut heard = read(item.record()).ok_or_else(foreign)?;
    // Those from the future were written by another clock: they would never age.
    heard.retain(|_, at| *at <= now && now.since(*at) < EXPIRE_AFTER);
    if heard.len() < NODES_MAX || heard.contains_key(&id) {
        heard.insert(id, now);
    }
    let bytes = heard.iter().flat_map(|(id, at)| [id.to_le_bytes(), at.as_micros().to_le_bytes()]);
    item.set_record(bytes.flatten().collect(), EXPIRE_AFTER, now);
    Ok(u32::try_from(heard.len()).unwrap_or(u32::MAX))
}

/// When each node was last heard of.
fn read(bytes: &[u8]) -> Option<BTreeMap<u64, Timestamp>> {
    let (mut reader, mut heard) = (PartReader::new(bytes), BTreeMap::new());
    while !reader.is_empty() {
        heard.insert(reader.word()?, Timestamp::from_micros(reader.word()?));
    }
    Some(heard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_count_until_they_are_silent_for_too_long() {
        let (mut item, start) = (Working::default(), Timestamp::from_micros(1_700_000_000_000_000));
        let mut at = |seconds, id| note(&mut item, id, start + Duration::from_secs(seconds));
        let counts = [at(0, 1), at(1, 2), at(14, 2), at(15, 2), at(15, 3)];
        assert_eq!(counts, [Ok(1), Ok(2), Ok(2), Ok(1), Ok(2)]);
        assert_eq!(at(2, 3), Ok(1), "a clock that stepped back forgets the future");
    }
}
