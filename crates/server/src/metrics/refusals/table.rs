//! The refusals of one policy, in a bounded table.

use std::collections::VecDeque;

use serde::Serialize;
use tidegate::Timestamp;

/// A key with more than one in 32 refusals is certainly in the table.
const KEYS_MAX: usize = 32;
const TOP_KEYS_MAX: usize = 10;
const RECENT_MAX: usize = 8;
/// A policy has at most this many limits.
const LIMITS_MAX: usize = 16;

/// One recorded refusal.
#[derive(Debug)]
pub(super) struct Refusal<'a> {
    pub(super) hash: u64,
    pub(super) name: Box<str>,
    pub(super) binding: &'a str,
    pub(super) retry_after_us: Option<u64>,
    pub(super) at: Timestamp,
    /// The number of refusals that it stands for.
    pub(super) weight: u64,
}

/// The current period and the one before.
#[derive(Debug, Default)]
pub(super) struct PolicyRefusals {
    now: Period,
    before: Period,
    recent: VecDeque<RecentRefusal>,
}

#[derive(Debug, Default)]
struct Period {
    keys: Vec<KeyCount>,
    limits: Vec<(Box<str>, u64)>,
}

#[derive(Clone, Debug)]
struct KeyCount {
    hash: u64,
    name: Box<str>,
    count: u64,
    last: Timestamp,
}

/// The refusals of a policy, for the dashboard.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct RefusalReport {
    /// The keys with the most refusals, in descending order.
    pub(crate) top: Vec<RefusedKey>,
    /// Refusals by limit, in descending order.
    pub(crate) limits: Vec<LimitRefusals>,
    /// The newest first.
    pub(crate) recent: Vec<RecentRefusal>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct RefusedKey {
    pub(crate) key: String,
    pub(crate) count: u64,
    pub(crate) last_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct LimitRefusals {
    pub(crate) limit: String,
    pub(crate) count: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct RecentRefusal {
    t: u64,
    key: String,
    limit: String,
    /// `null`: never.
    retry_after_ms: Option<u64>,
}

impl PolicyRefusals {
    pub(super) fn add(&mut self, refusal: Refusal<'_>) {
        let recent = RecentRefusal {
            t: ms(refusal.at),
            key: refusal.name.to_string(),
            limit: refusal.binding.to_owned(),
            retry_after_ms: refusal.retry_after_us.map(|us| us.div_ceil(1000)),
        };
        self.recent.truncate(RECENT_MAX - 1);
        self.recent.push_front(recent);
        self.now.add(refusal);
    }

    /// Begins a new period. Returns whether any counts are left.
    pub(super) fn end_period(&mut self) -> bool {
        self.before = std::mem::take(&mut self.now);
        !self.before.keys.is_empty()
    }

    pub(super) fn report(&self) -> RefusalReport {
        let mut both =
            Period { keys: self.before.keys.clone(), limits: self.before.limits.clone() };
        for key in &self.now.keys {
            match both.keys.iter_mut().find(|it| it.hash == key.hash) {
                Some(known) => {
                    known.count += key.count;
                    known.last = key.last;
                }
                None => both.keys.push(key.clone()),
            }
        }
        self.now.limits.iter().for_each(|(limit, count)| both.bind(limit, *count));
        both.keys.sort_by_key(|key| std::cmp::Reverse((key.count, key.last)));
        both.limits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let report = |key: &KeyCount| RefusedKey {
            key: key.name.to_string(),
            count: key.count,
            last_ms: ms(key.last),
        };
        let binding =
            |(limit, count): (Box<str>, u64)| LimitRefusals { limit: limit.into(), count };
        RefusalReport {
            top: both.keys.iter().take(TOP_KEYS_MAX).map(report).collect(),
            limits: both.limits.into_iter().map(binding).collect(),
            recent: self.recent.iter().cloned().collect(),
        }
    }
}

impl Period {
    fn add(&mut self, refusal: Refusal<'_>) {
        let Refusal { hash, name, binding, at, weight, .. } = refusal;
        self.bind(binding, weight);
        if let Some(known) = self.keys.iter_mut().find(|key| key.hash == hash) {
            known.count += weight;
            known.last = at;
            return;
        }
        let new = KeyCount { hash, name, count: weight, last: at };
        if self.keys.len() < KEYS_MAX {
            self.keys.push(new);
        } else if let Some(least) = self.keys.iter_mut().min_by_key(|key| key.count) {
            *least = KeyCount { count: least.count + weight, ..new };
        }
    }

    fn bind(&mut self, limit: &str, count: u64) {
        if let Some((_, known)) = self.limits.iter_mut().find(|(name, _)| **name == *limit) {
            *known += count;
        } else if self.limits.len() < LIMITS_MAX {
            self.limits.push((limit.into(), count));
        }
    }
}

fn ms(at: Timestamp) -> u64 {
    at.as_micros() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(hash: u64, binding: &str) -> Refusal<'_> {
        let at = Timestamp::from_micros(1_700_000_000_000_000 + hash);
        Refusal { hash, name: "".into(), binding, retry_after_us: Some(1), at, weight: 1 }
    }

    #[test]
    fn the_table_is_bounded() {
        let mut policy = PolicyRefusals::default();
        for number in 0..10_000 {
            policy.add(refusal(number, &format!("limit-{number}")));
        }
        assert_eq!((policy.now.keys.len(), policy.now.limits.len()), (KEYS_MAX, LIMITS_MAX));
        let report = policy.report();
        assert_eq!((report.top.len(), report.recent.len()), (TOP_KEYS_MAX, RECENT_MAX));
        // The sum is exact: a new key inherits the count of the one that it replaces.
        assert_eq!(policy.now.keys.iter().map(|key| key.count).sum::<u64>(), 10_000);
    }

    #[test]
    fn the_report_has_limits_and_the_newest_refusals() {
        let mut policy = PolicyRefusals::default();
        for (hash, limit) in [(1, "second"), (1, "day"), (2, "second")] {
            policy.add(refusal(hash, limit));
        }
        policy.end_period();
        policy.add(refusal(1, "second"));
        let report = policy.report();
        let limits: Vec<_> = report.limits.iter().map(|it| (it.limit.as_str(), it.count)).collect();
        assert_eq!(limits, [("second", 3), ("day", 1)]);
        assert_eq!(report.top[0].count, 3);
        assert_eq!(report.recent[0].retry_after_ms, Some(1));
        assert_eq!(report.recent.len(), 4);
    }
}
