//! The leases that a node holds for one key.

use std::time::Duration;

use crate::algorithm::Return;
use crate::time::Timestamp;

/// What is left of a lease. Instants are the node's own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lease {
    pub(super) left: u64,
    pub(super) ends_us: u64,
    /// Before the request was sent.
    pub(super) sent_us: u64,
    pub(super) granted_at: Option<Timestamp>,
}

impl Lease {
    /// The message that gives the remaining units back; `None` if they are not worth one.
    pub(super) fn into_return(self, now_us: u64, unit_us: u64) -> Option<Return> {
        let age_us = now_us.saturating_sub(self.sent_us);
        let worth_us = self.left.saturating_mul(unit_us);
        let granted_at = self.granted_at.filter(|_| worth_us > age_us)?;
        Some(Return { units: self.left, granted_at, age: Duration::from_micros(age_us) })
    }
}

/// The lease that is spent, and one that was fetched before it was used up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held([Lease; 2]);

impl Held {
    /// The lease that is spent first.
    #[inline]
    pub(super) fn first(&mut self) -> &mut Lease {
        &mut self.0[0]
    }

    /// Whether there is no room for another lease.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.0[1].left > 0
    }

    /// What can be spent now.
    pub(super) fn left(&self, now_us: u64) -> u64 {
        self.0.iter().filter(|lease| now_us < lease.ends_us).map(|lease| lease.left).sum()
    }

    /// Spends from the older lease first. There must be enough.
    pub(super) fn spend(&mut self, now_us: u64, mut cost: u64) {
        for lease in self.0.iter_mut().filter(|lease| now_us < lease.ends_us) {
            let spent = cost.min(lease.left);
            lease.left -= spent;
            cost -= spent;
        }
    }

    /// Spends from the newest lease, although it has ended.
    pub(super) fn spend_late(&mut self, cost: u64) {
        let newest = usize::from(self.is_full());
        self.0[newest].left = self.0[newest].left.saturating_sub(cost);
    }

    /// Only when it is not full.
    pub(super) fn add(&mut self, lease: Lease) {
        let index = usize::from(self.0[0].left > 0);
        self.0[index] = lease;
    }

    /// Takes out the oldest lease with something left that `is_over`.
    pub(super) fn take_if(&mut self, is_over: impl Fn(&Lease) -> bool) -> Option<Lease> {
        let over = self.0.iter_mut().find(|lease| lease.left > 0 && is_over(lease))?;
        let lease = std::mem::take(over);
        self.move_up();
        Some(lease)
    }

    /// The fetched lease becomes the one that is spent.
    pub(super) fn move_up(&mut self) {
        if self.0[0].left == 0 {
            self.0.swap(0, 1);
        }
    }

    /// When the first of them ends.
    pub(super) fn ends_us(&self) -> Option<u64> {
        self.0.iter().filter(|lease| lease.left > 0).map(|lease| lease.ends_us).min()
    }
}
