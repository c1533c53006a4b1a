//! Warns of reports to `/v1/observe` that no limit follows: nothing else says that a target is misspelt.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Mutex, PoisonError};

use tidegate::{Limiter, SystemClock};
use tidegate_config::plan::{ALL, Plan};
use tidegate_core::text::{closest, printable};

use crate::logs::line_limiter;

/// The most targets that are warned of, each with one search for the nearest name: anyone who reaches the API can make up
/// names.
const WARNED_MAX: usize = 256;
/// A target without a line yet gets one with a later report.
const LINE_RATE: &str = "10/s burst 20";
/// The most followed targets that a line lists.
const LISTED_MAX: usize = 10;

/// Replaced with the plans, so that a reload warns again.
#[derive(Debug, Default)]
pub(super) struct UnfollowedTargets {
    followed: BTreeSet<String>,
    warned: Mutex<HashSet<String>>,
    lines: Option<Limiter<SystemClock>>,
}

impl UnfollowedTargets {
    pub(super) fn new<'p>(plans: impl Iterator<Item = &'p Plan>) -> Self {
        let followed = plans.flat_map(Plan::reported).map(str::to_owned).collect();
        Self { followed, warned: Mutex::default(), lines: line_limiter(LINE_RATE) }
    }

    /// Warns once of a target, if no limit follows it.
    pub(super) fn warn_of(&self, target: &str) {
        if self.is_news(target) {
            let known = || self.followed.iter().map(String::as_str);
            let listed: Vec<_> = known().take(LISTED_MAX).map(printable).collect();
            tracing::warn!(
                target_name = printable(target),
                nearest = closest(target, known()).map(printable),
                followed = listed.join(", "),
                "no limit follows this target of /v1/observe: give `observe` in the app and the limit's source the same \
                 name"
            );
        }
    }

    fn is_news(&self, target: &str) -> bool {
        if self.followed.contains(target) || self.followed.contains(ALL) {
            return false;
        }
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = warned.contains(target) || warned.len() == WARNED_MAX;
        !is_known && self.may_log() && warned.insert(target.to_owned())
    }

    fn may_log(&self) -> bool {
        self.lines.as_ref().is_none_or(|lines| lines.check("").allowed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn following(followed: &[&str]) -> UnfollowedTargets {
        let followed = followed.iter().map(|&name| name.to_owned()).collect();
        UnfollowedTargets { followed, ..UnfollowedTargets::default() }
    }

    #[test]
    fn each_target_that_no_limit_follows_is_warned_of_once() {
        for (followed, target, expected) in [
            (&["db"][..], "db", [false, false]),
            (&["db"], "dbb", [true, false]),
            (&["db", "all"], "dbb", [false, false]),
            (&[], "db", [true, false]),
        ] {
            let unfollowed = following(followed);
            assert_eq!([(); 2].map(|()| unfollowed.is_news(target)), expected, "{target}");
        }
    }

    #[test]
    fn made_up_targets_fill_neither_the_memory_nor_the_log() {
        let warned = |unfollowed: &UnfollowedTargets| {
            (0..1000).filter(|name| unfollowed.is_news(&name.to_string())).count()
        };
        assert_eq!(warned(&following(&["db"])), WARNED_MAX);
        assert!(warned(&UnfollowedTargets::new([].into_iter())) < WARNED_MAX);
    }
}
