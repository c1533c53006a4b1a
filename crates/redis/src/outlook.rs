//! When to look at a cluster's map again: seldom while all is well, often while something is wrong, and less and less
//! often when that goes on for longer than a failover takes and the map stays as it is. A node may be dead for days.

use std::time::Duration;

use tokio::time::Instant;

use super::backoff::jittered;

/// How often to look in trouble, at first and in the end.
const IN_TROUBLE: Duration = Duration::from_millis(50);
const IN_LONG_TROUBLE: Duration = Duration::from_secs(1);

/// A failover is noticed within [`IN_TROUBLE`] when it takes no longer: `cluster-node-timeout` is 15 s by default, and
/// a replica is chosen a second or two after that.
const FAILOVER_TAKES: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Outlook {
    /// When all is well.
    every: Duration,
    next: Instant,
    looked: Option<Instant>,
    /// Since when something has been wrong with this very map, and when it last was.
    trouble: Option<(Instant, Instant)>,
}

impl Outlook {
    pub(super) fn new(every: Duration) -> Self {
        Self { every, next: Instant::now(), looked: None, trouble: None }
    }

    /// When to look.
    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    /// Something went wrong: the map may have changed.
    pub(super) fn trouble(&mut self, now: Instant) {
        let since = match self.trouble {
            Some((since, last)) if now < last + self.every => since,
            _ => now,
        };
        self.trouble = Some((since, now));
        self.look_soon(now);
    }

    /// The map has changed.
    pub(super) fn news(&mut self, now: Instant) {
        self.trouble = Some((now, now));
        self.look_soon(now);
    }

    /// What came of a look.
    pub(super) fn looked(&mut self, now: Instant, is_well: bool, is_news: bool) {
        if is_news {
            self.trouble = None;
        }
        if !is_well {
            self.trouble(now);
        }
        self.looked = Some(now);
        self.next = now + jittered(if is_well { self.every } else { self.pace(now) });
    }

    /// How often to look now that something is wrong.
    fn pace(&self, now: Instant) -> Duration {
        let lasted = self.trouble.map_or(Duration::ZERO, |(since, _)| now - since);
        (lasted.saturating_sub(FAILOVER_TAKES) / 20).clamp(IN_TROUBLE, IN_LONG_TROUBLE)
    }

    fn look_soon(&mut self, now: Instant) {
        // Measured from the last look: trouble that comes all the time must not put it off.
        let soon = self.looked.unwrap_or(now) + jittered(self.pace(now));
        // … and after a long quiet, not at once: a fleet would come as one.
        let soon = if soon <= now { now + jittered(IN_TROUBLE) } else { soon };
        self.next = self.next.min(soon);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    /// Looks within so long, while there is trouble every 10 ms.
    fn looks(outlook: &mut Outlook, now: &mut Instant, span: Duration, is_well: bool) -> u32 {
        let (end, mut count) = (*now + span, 0);
        while *now < end {
            *now += Duration::from_millis(10);
            outlook.trouble(*now);
            if *now >= outlook.next() {
                outlook.looked(*now, is_well, false);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn long_trouble_is_looked_at_less_and_less_and_new_trouble_at_once() {
        for is_well in [false, true] {
            let mut outlook = Outlook::new(EVERY);
            let mut now = outlook.next();
            outlook.looked(now, true, true);
            assert!(outlook.next() >= now + EVERY / 2);
            for second in 0..FAILOVER_TAKES.as_secs() {
                let count = looks(&mut outlook, &mut now, Duration::from_secs(1), is_well);
                assert!((18..=50).contains(&count), "{count} in second {second}");
            }
            looks(&mut outlook, &mut now, Duration::from_secs(20), is_well);
            let late = looks(&mut outlook, &mut now, Duration::from_secs(10), is_well);
            assert!((5..=21).contains(&late), "{late} in 10 s");
            outlook.news(now);
            assert!(outlook.next() <= now + IN_TROUBLE, "news");
            looks(&mut outlook, &mut now, EVERY, is_well);
            outlook.looked(now, true, false);
            now += EVERY + EVERY;
            outlook.looked(now, true, false);
            outlook.trouble(now);
            assert!(outlook.next() <= now + IN_TROUBLE, "after a quiet");
        }
    }
}
