//! How many calls there were of late, and how many of them were slow. That is all a 99th percentile has to be
//! known for: it passes a bound when more than one call in a hundred does.

/// Parts of a window. One more is kept, which has just begun, so that a window is always covered whole.
const PARTS: u64 = 10;
const KEPT: usize = 11;

/// Counters over a sliding window. Time is an argument.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    part_us: u64,
    /// The number of the newest part.
    newest: u64,
    /// Nothing was counted before this.
    since_us: Option<u64>,
    parts: [Part; KEPT],
}

#[derive(Clone, Copy, Default, Debug)]
struct Part {
    calls: u64,
    slow: u64,
}

impl Recent {
    pub(super) fn new(window_us: u64) -> Self {
        let part_us = window_us.div_ceil(PARTS).max(1);
        Self { part_us, newest: 0, since_us: None, parts: [Part::default(); KEPT] }
    }

    pub(super) fn count(&mut self, now_us: u64, slow: bool) {
        self.since_us.get_or_insert(now_us);
        let part = self.move_to(now_us);
        part.calls += 1;
        part.slow += u64::from(slow);
    }

    /// Whether the 99th percentile of at least `min_calls` calls over a whole window was slow.
    pub(super) fn is_slow(&self, now_us: u64, min_calls: u64) -> bool {
        let window_us = self.part_us * PARTS;
        let whole = self.since_us.is_some_and(|since| now_us >= since.saturating_add(window_us));
        let sum = |of: fn(&Part) -> u64| self.parts.iter().map(of).sum::<u64>();
        let (calls, slow) = (sum(|part| part.calls), sum(|part| part.slow));
        // By nearest rank: at least ⌈99 %⌉ of the calls are as fast as the percentile says.
        whole && calls >= min_calls && slow > calls / 100
    }

    /// The part of an instant, after emptying those that have passed since the last one.
    fn move_to(&mut self, now_us: u64) -> &mut Part {
        // A clock that steps back counts into the newest part.
        let number = (now_us / self.part_us).max(self.newest);
        let kept = KEPT as u64;
        for passed in (self.newest + 1..=number).take(KEPT) {
            // After a long time all are emptied, wherever one begins.
            self.parts[usize::try_from(passed % kept).unwrap_or_default()] = Part::default();
        }
        self.newest = number;
        &mut self.parts[usize::try_from(number % kept).unwrap_or_default()]
    }
}
