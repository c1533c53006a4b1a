//! The sweep: leases of keys without checks go back, and idle keys are dropped.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tidegate_core::Timestamp;

use super::{SHARDS, Shared};
use crate::clock::Clock;
use crate::store::Store;
use crate::sync::lock;

/// How often all keys are swept. A lease lives for up to a second, and is worth returning before.
const ROUND: Duration = Duration::from_millis(50);

/// How long a key is kept after its last check, for what is known of its demand.
const KEEP_US: u64 = 2_000_000;

impl<S: Store + 'static, C: Clock + 'static> Shared<S, C> {
    /// Sweeps the keys of a shard; with `release`, all leases go back.
    pub(super) fn sweep(self: &Arc<Self>, shard: usize, release: bool) {
        let now_us = self.clock.steady_us();
        let mut outboxes = Vec::new();
        let mut shard = lock(&self.shards[shard]);
        let keys = &mut shard.keys;
        let before = keys.len();
        for (fingerprint, entry) in &mut *keys {
            if release {
                entry.holder.release();
            }
            if release || entry.holder.wakes_us().is_some_and(|wakes_us| wakes_us <= now_us) {
                outboxes.extend(self.due(*fingerprint, entry, now_us));
            }
        }
        keys.retain(|_, entry| !entry.is_idle() || now_us < entry.used_us.saturating_add(KEEP_US));
        let dropped = before - keys.len();
        drop(shard);
        self.counts.keys.fetch_sub(dropped as u64, Ordering::Relaxed);
        let now =
            Timestamp::from_micros(now_us.wrapping_add(self.ahead_us.load(Ordering::Relaxed)));
        for outbox in outboxes {
            self.send(Some(outbox), now);
        }
    }

    /// Starts the sweeping task, unless it runs. It ends with the last handle.
    pub(super) fn keep_sweeping(self: &Arc<Self>) {
        if self.sweeping.load(Ordering::Relaxed) || self.sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            self.sweeping.store(false, Ordering::Relaxed);
            return;
        };
        let sweeper = Sweeper(Arc::downgrade(self));
        runtime.spawn(async move {
            let mut interval = tokio::time::interval(ROUND);
            loop {
                interval.tick().await;
                for shard in 0..SHARDS {
                    let Some(shared) = sweeper.0.upgrade() else { return };
                    shared.sweep(shard, false);
                    drop(shared);
                    // A hundred thousand keys take milliseconds: let other tasks run in between.
                    tokio::task::yield_now().await;
                }
            }
        });
    }
}

/// The sweeping task. When it ends with its runtime, another one may be started.
struct Sweeper<S, C>(Weak<Shared<S, C>>);

impl<S, C> Drop for Sweeper<S, C> {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.sweeping.store(false, Ordering::Relaxed);
        }
    }
}
