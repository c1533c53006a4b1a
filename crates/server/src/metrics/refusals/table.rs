//! The refusals of one policy, in a few places.

use std::collections::VecDeque;

use serde::Serialize;
use tidegate::Timestamp;

/// Places for keys. Whoever makes more than one of so many refusals has one.
const KEYS_MAX: usize = 32;
/// How many of them are told.
const TOLD_MAX: usize = 10;
const RECENT_MAX: usize = 8;
/// A policy has at most sixteen limits, and their names come from the configuration.
const LIMITS_MAX: usize = 16;

/// One refusal, as it was looked at.
#[derive(Debug)]
pub(super) struct Refusal<'a> {
    pub(super) hash: u64,
    pub(super) shown: Option<Box<str>>,
    pub(super) binding: &'a str,
    pub(super) retry_after_us: Option<u64>,
    pub(super) at: Timestamp,
    /// How many it stands for.
    pub(super) weight: u64,
}

/// This turn and the one before.
#[derive(Debug, Default)]
pub(super) struct OfPolicy {
    now: Turn,
    before: Turn,
    recent: VecDeque<Recent>,
}

#[derive(Debug, Default)]
struct Turn {
    keys: Vec<Place>,
    limits: Vec<(Box<str>, u64)>,
}

#[derive(Clone, Debug)]
struct Place {
    hash: u64,
    shown: Option<Box<str>>,
    count: u64,
    last: Timestamp,
}

/// What is told of a policy.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Refused {
    /// The keys refused most, the first most of all.
    pub(crate) top: Vec<Denied>,
    /// Which of its limits refused how often.
    pub(crate) limits: Vec<Binding>,
    /// The newest first.
    pub(crate) recent: Vec<Recent>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Denied {
    pub(crate) key: String,
    pub(crate) count: u64,
    pub(crate) last_ms: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Binding {
    pub(crate) limit: String,
    pub(crate) count: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Recent {
    t: u64,
    key: String,
    limit: String,
    /// `null`: never.
    retry_after_ms: Option<u64>,
}

impl OfPolicy {
    pub(super) fn add(&mut self, refusal: Refusal<'_>) {
        let recent = Recent {
            t: ms(refusal.at),
            key: name(refusal.hash, refusal.shown.as_deref()),
            limit: refusal.binding.to_owned(),
            retry_after_ms: refusal.retry_after_us.map(|us| us.div_ceil(1000)),
        };
        self.recent.truncate(RECENT_MAX - 1);
        self.recent.push_front(recent);
        self.now.add(refusal);
    }

    /// Ends a turn. Whether anything is left.
    pub(super) fn turn(&mut self) -> bool {
        self.before = std::mem::take(&mut self.now);
        !self.before.keys.is_empty()
    }

    pub(super) fn tell(&self) -> Refused {
        let mut both = Turn { keys: self.before.keys.clone(), limits: self.before.limits.clone() };
        for place in &self.now.keys {
            match both.keys.iter_mut().find(|it| it.hash == place.hash) {
                Some(known) => {
                    known.count += place.count;
                    known.last = place.last;
                }
                None => both.keys.push(place.clone()),
            }
        }
        self.now.limits.iter().for_each(|(limit, count)| both.bind(limit, *count));
        both.keys.sort_by_key(|place| std::cmp::Reverse((place.count, place.last)));
        both.limits.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let told = |place: &Place| Denied {
            key: name(place.hash, place.shown.as_deref()),
            count: place.count,
            last_ms: ms(place.last),
        };
        let binding = |(limit, count): (Box<str>, u64)| Binding { limit: limit.into(), count };
        Refused {
            top: both.keys.iter().take(TOLD_MAX).map(told).collect(),
            limits: both.limits.into_iter().map(binding).collect(),
            recent: self.recent.iter().cloned().collect(),
        }
    }
}

impl Turn {
    fn add(&mut self, refusal: Refusal<'_>) {
        let Refusal { hash, shown, binding, at, weight, .. } = refusal;
        self.bind(binding, weight);
        if let Some(known) = self.keys.iter_mut().find(|place| place.hash == hash) {
            known.count += weight;
            known.last = at;
            return;
        }
        let new = Place { hash, shown, count: weight, last: at };
        if self.keys.len() < KEYS_MAX {
            self.keys.push(new);
        } else if let Some(least) = self.keys.iter_mut().min_by_key(|place| place.count) {
            *least = Place { count: least.count + weight, ..new };
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

fn name(hash: u64, shown: Option<&str>) -> String {
    shown.map_or_else(|| format!("{hash:016x}"), str::to_owned)
}

fn ms(at: Timestamp) -> u64 {
    at.as_micros() / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(hash: u64, binding: &str) -> Refusal<'_> {
        let at = Timestamp::from_micros(1_700_000_000_000_000 + hash);
        Refusal { hash, shown: None, binding, retry_after_us: Some(1), at, weight: 1 }
    }

    #[test]
    fn places_are_bounded_whoever_comes() {
        let mut policy = OfPolicy::default();
        for number in 0..10_000 {
            policy.add(refusal(number, &format!("limit-{number}")));
        }
        assert_eq!((policy.now.keys.len(), policy.now.limits.len()), (KEYS_MAX, LIMITS_MAX));
        let told = policy.tell();
        assert_eq!((told.top.len(), told.recent.len()), (TOLD_MAX, RECENT_MAX));
        // Nothing is lost in sum: a new key inherits the count of the one that it replaces.
        assert_eq!(policy.now.keys.iter().map(|place| place.count).sum::<u64>(), 10_000);
    }

    #[test]
    fn limits_and_the_newest_are_told() {
        let mut policy = OfPolicy::default();
        for (hash, limit) in [(1, "second"), (1, "day"), (2, "second")] {
            policy.add(refusal(hash, limit));
        }
        policy.turn();
        policy.add(refusal(1, "second"));
        let told = policy.tell();
        let limits: Vec<_> = told.limits.iter().map(|it| (it.limit.as_str(), it.count)).collect();
        assert_eq!(limits, [("second", 3), ("day", 1)]);
        assert_eq!(told.top[0].count, 3);
        assert_eq!(told.recent[0].retry_after_ms, Some(1));
        assert_eq!(told.recent.len(), 4);
    }
}
