//! Statistics by URL: how often each was requested in the last minute, and how long it took.
//!
//! A client can make up paths, which must not push out those that matter. While the table is full, a new URL gets an
//! entry only after several requests within a minute, and takes the entry of a URL on which the least time was
//! spent: the slowest and the busiest stay.

use std::collections::HashMap;
use std::time::Duration;

use super::Ramp;
use super::number::float;
use super::observed::Running;
use crate::sightings::Sightings;
use crate::time::Timestamp;

/// URLs beyond this number share one entry.
const URLS_MAX: usize = 10_000;
/// The table is also full with this many bytes of names: a client chooses a path, and must not choose how much memory
/// the table takes.
const NAME_BYTES_MAX: usize = 4 << 20;
/// The index of the entry they share.
const OTHER: usize = 0;
/// A minute, in seconds.
const SLOTS: usize = 60;
const SLOT_US: u64 = 1_000_000;
/// A new URL needs several requests within this time to get an entry of a full table.
const SIGHTED_WITHIN: Duration = Duration::from_mins(1);
/// How often a full table is swept for entries that may be given to other URLs.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// The most entries in use that are given to other URLs between two sweeps.
const REPLACED_MAX: usize = 256;
/// Each request counts as at least this long when entries are compared, so that busy URLs stay even if they are fast.
const REQUEST_MS_MIN: f64 = 10.0;

/// Request counts and latencies of up to 10,000 URLs over the last minute; the others share one entry. The mean of a
/// minute is smooth enough, so nothing else smooths it. A URL without requests is healthy.
///
/// If there are more URLs, those have an entry on which the most time was spent. A new one gets an entry with its third
/// request within a minute, or later while there are very many others.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::{Ramp, Urls};
///
/// let (mut urls, ramp) = (Urls::default(), Ramp::latency_per_url());
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
/// assert_eq!(urls.limit("/report", &ramp, 240, now), 240);
/// let request = urls.begin("/report", now);
/// // It still runs: its age counts, so that a request that hangs is seen.
/// assert_eq!(urls.limit("/report", &ramp, 240, now + Duration::from_millis(5000)), 177);
/// let done = now + Duration::from_millis(9150);
/// urls.end(request, done);
/// assert_eq!(urls.limit("/report", &ramp, 240, done), 122);
/// assert_eq!(urls.limit("/report", &ramp, 240, done + Duration::from_secs(61)), 240);
/// ```
#[derive(Clone, Debug)]
pub struct Urls {
    indexes: HashMap<Box<str>, usize>,
    /// The length of all names in it.
    name_bytes: usize,
    entries: Vec<Entry>,
    free: Vec<usize>,
    swept_at: Option<Timestamp>,
    sightings: Sightings,
    /// URLs whose entries may be given away until the next sweep; the last one first.
    replaceable: Vec<Box<str>>,
}

/// A request in flight: for [`Urls::end`] or [`Urls::take_back`], however it ends.
///
/// ```
/// # use tidegate_core::Timestamp;
/// # use tidegate_core::adaptive::{UrlRequest, Urls};
/// # let (mut urls, now) = (Urls::default(), Timestamp::from_micros(1_700_000_000_000_000));
/// let request: UrlRequest = urls.begin("/report", now);
/// urls.end(request, now);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrlRequest {
    index: usize,
    begun: Timestamp,
}

/// Requests to a URL over the last minute.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::Timestamp;
/// use tidegate_core::adaptive::Urls;
///
/// let (mut urls, now) = (Urls::default(), Timestamp::from_micros(1_700_000_000_000_000));
/// assert!(urls.is_empty());
/// urls.note("/a", Duration::from_millis(100), now);
/// urls.note("/b", Duration::from_millis(300), now);
/// urls.note("/b", Duration::from_millis(500), now);
/// let summary = urls.summary("/b", now);
/// assert_eq!((summary.count, summary.mean_ms), (2, 400.0));
/// assert_eq!((urls.len(), urls.busiest(1, now)), (2, vec![(Some("/b"), summary)]));
/// ```
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct UrlSummary {
    /// How often it was requested.
    pub count: u64,
    /// How long requests take on average, in milliseconds. Those that still run count with their age.
    pub mean_ms: f64,
    /// The most requests in a minute in which it was fast, as [`Urls::limits_from_busiest`] has seen it.
    pub busiest: u64,
}

impl UrlSummary {
    /// How often it may be requested in a minute without a limit on fast URLs: `None` while it is fast; while it is slow,
    /// [down](Ramp::latency_per_url_from) from its busiest fast minute, or from `least` if that was more.
    ///
    /// ```
    /// # use tidegate_core::adaptive::UrlSummary;
    /// let fast = UrlSummary { count: 9000, mean_ms: 300.0, busiest: 9000 };
    /// assert_eq!(fast.limit_from_busiest(240), None);
    /// let slow = UrlSummary { mean_ms: 9150.0, ..fast };
    /// assert_eq!(slow.limit_from_busiest(240), Some(4502));
    /// assert_eq!(UrlSummary { busiest: 7, ..slow }.limit_from_busiest(240), Some(122));
    /// ```
    pub fn limit_from_busiest(&self, least: u64) -> Option<u64> {
        let start = self.busiest.max(least);
        let ramp = Ramp::latency_per_url_from(start);
        (self.mean_ms > ramp.ends().x_lo).then(|| ramp.limit(self.mean_ms, start))
    }
}

#[derive(Clone, Debug)]
struct Entry {
    /// The newest second.
    newest: u64,
    begun: [u32; SLOTS],
    ended: [u32; SLOTS],
    /// In tenths of a millisecond.
    took: [u32; SLOTS],
    running: Running,
    /// The most requests in a minute in which it was fast.
    busiest: u64,
}

impl Default for Urls {
    fn default() -> Self {
        let entries = vec![Entry::default()];
        Self {
            indexes: HashMap::new(),
            name_bytes: 0,
            entries,
            free: Vec::new(),
            swept_at: None,
            sightings: Sightings::within(SIGHTED_WITHIN),
            replaceable: Vec::new(),
        }
    }
}

impl Urls {
    /// A request for a URL is sent. The URL is a normalised path, without its query.
    pub fn begin(&mut self, url: &str, now: Timestamp) -> UrlRequest {
        let index = self.index_for(url, now);
        if let Some(entry) = self.entries.get_mut(index) {
            entry.begin(now);
        }
        UrlRequest { index, begun: now }
    }

    /// A request has ended.
    pub fn end(&mut self, request: UrlRequest, now: Timestamp) {
        if let Some(entry) = self.entries.get_mut(request.index) {
            entry.end(request.begun, now);
        }
    }

    /// A request was refused after all: it does not count, as if it had never begun.
    ///
    /// ```
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{UrlSummary, Urls};
    /// # let (mut urls, now) = (Urls::default(), Timestamp::from_micros(1_700_000_000_000_000));
    /// let request = urls.begin("/report", now);
    /// urls.take_back(request);
    /// assert_eq!(urls.summary("/report", now), UrlSummary::default());
    /// ```
    pub fn take_back(&mut self, request: UrlRequest) {
        if let Some(entry) = self.entries.get_mut(request.index) {
            entry.take_back(request.begun);
        }
    }

    /// A request that was measured elsewhere, and has just ended.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Ramp, Urls};
    /// let (mut urls, now) = (Urls::default(), Timestamp::from_micros(1_700_000_000_000_000));
    /// urls.note("/report", Duration::from_millis(9150), now);
    /// assert_eq!(urls.limit("/report", &Ramp::latency_per_url(), 240, now), 122);
    /// ```
    pub fn note(&mut self, url: &str, took: Duration, now: Timestamp) {
        let index = self.index_for(url, now);
        if let Some(entry) = self.entries.get_mut(index) {
            entry.note(took, now);
        }
    }

    /// Requests to a URL over the last minute.
    pub fn summary(&self, url: &str, now: Timestamp) -> UrlSummary {
        let index = match self.indexes.get(url) {
            Some(index) => *index,
            None if self.is_full() => OTHER,
            None => return UrlSummary::default(),
        };
        self.entries.get(index).map_or_else(UrlSummary::default, |entry| entry.summary(now))
    }

    /// How often a URL may be requested in a minute.
    pub fn limit(&self, url: &str, ramp: &Ramp, limit: u64, now: Timestamp) -> u64 {
        ramp.limit(self.summary(url, now).mean_ms, limit)
    }

    /// The same for every known URL. `None` stands for those that share an entry.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::{Ramp, Urls};
    /// let (mut urls, ramp) = (Urls::default(), Ramp::latency_per_url());
    /// let begun = Timestamp::from_micros(1_700_000_000_000_000);
    /// urls.begin("/hangs", begun);
    /// let limits = urls.limits(&ramp, 240, begun + Duration::from_secs(300));
    /// assert!(limits.eq([(Some("/hangs"), 4), (None, 240)]));
    /// assert!(!urls.is_full()); // nobody shares an entry
    /// ```
    pub fn limits<'a>(
        &'a self,
        ramp: &'a Ramp,
        limit: u64,
        now: Timestamp,
    ) -> impl Iterator<Item = (Option<&'a str>, u64)> {
        self.all().map(move |(url, entry)| (url, ramp.limit(entry.summary(now).mean_ms, limit)))
    }

    /// The limits of slow URLs where fast ones have none: see [`UrlSummary::limit_from_busiest`]. Remembers the busiest
    /// minute of those that are fast, so that it is to be called about once a second.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Timestamp;
    /// # use tidegate_core::adaptive::Urls;
    /// let (mut urls, now) = (Urls::default(), Timestamp::from_micros(1_700_000_000_000_000));
    /// (0..1000).for_each(|_| urls.note("/app.css", Duration::from_millis(1), now));
    /// assert_eq!(urls.limits_from_busiest(240, now), [(None, None), (Some("/app.css"), None)]);
    /// let slow = now + Duration::from_secs(90);
    /// urls.note("/app.css", Duration::from_millis(9150), slow);
    /// assert_eq!(urls.limits_from_busiest(240, slow), [(None, None), (Some("/app.css"), Some(502))]);
    /// ```
    pub fn limits_from_busiest(
        &mut self,
        least: u64,
        now: Timestamp,
    ) -> Vec<(Option<&str>, Option<u64>)> {
        let fast_ms = Ramp::latency_per_url().ends().x_lo;
        let summed = |entry: &mut Entry| {
            let summary = entry.summary(now);
            if summary.mean_ms <= fast_ms {
                entry.busiest = entry.busiest.max(summary.count);
            }
            summary.limit_from_busiest(least)
        };
        let limits: Vec<_> = self.entries.iter_mut().map(summed).collect();
        let of = |index: usize| limits.get(index).copied().flatten();
        let named = self.indexes.iter().map(|(url, index)| (Some(&**url), of(*index)));
        std::iter::once((None, of(OTHER))).chain(named).collect()
    }

    /// The URLs with the most requests, in descending order. `None` stands for those that share an entry.
    pub fn busiest(&self, most: usize, now: Timestamp) -> Vec<(Option<&str>, UrlSummary)> {
        let summed = self.all().map(|(url, entry)| (url, entry.summary(now)));
        let mut summed: Vec<_> = summed.filter(|(_, summary)| summary.count > 0).collect();
        summed.sort_unstable_by(|a, b| b.1.count.cmp(&a.1.count).then(a.0.cmp(&b.0)));
        summed.truncate(most);
        summed
    }

    /// How many URLs have an entry of their own.
    pub fn len(&self) -> usize {
        self.indexes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Whether URLs that are not known share an entry.
    pub fn is_full(&self) -> bool {
        self.indexes.len() >= URLS_MAX || self.name_bytes >= NAME_BYTES_MAX
    }

    fn index_for(&mut self, url: &str, now: Timestamp) -> usize {
        if let Some(index) = self.indexes.get(url) {
            return *index;
        }
        if self.is_full() {
            self.sweep(now);
        }
        if self.is_full() && self.sightings.note(url, now) {
            self.replace_one();
        }
        if self.is_full() {
            return OTHER;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() - 1
        });
        self.indexes.insert(url.into(), index);
        self.name_bytes += url.len();
        index
    }

    /// Frees the entries of URLs without a request in the last minute and without one in flight. If all are in use, lists
    /// those on which the least time was spent.
    fn sweep(&mut self, now: Timestamp) {
        if self.swept_at.is_some_and(|at| now >= at && now.since(at) < SWEEP_EVERY) {
            return;
        }
        self.swept_at = Some(now);
        let (entries, free) = (&mut self.entries, &mut self.free);
        let name_bytes = &mut self.name_bytes;
        self.indexes.retain(|url, index| {
            let Some(entry) = entries.get_mut(*index) else { return false };
            let is_idle = entry.running.count == 0 && entry.summary(now).count == 0;
            if is_idle {
                *entry = Entry::default();
                free.push(*index);
                *name_bytes -= url.len();
            }
            !is_idle
        });
        self.replaceable.clear();
        if self.is_full() {
            self.list_replaceable(now);
        }
    }

    fn list_replaceable(&mut self, now: Timestamp) {
        let spent = self.indexes.iter().filter_map(|(url, index)| {
            let entry = self.entries.get(*index).filter(|entry| entry.running.count == 0)?;
            let UrlSummary { count, mean_ms, .. } = entry.summary(now);
            Some((float(count) * mean_ms.max(REQUEST_MS_MIN), url))
        });
        let mut spent: Vec<_> = spent.collect();
        if spent.len() > REPLACED_MAX {
            spent.select_nth_unstable_by(REPLACED_MAX, |a, b| a.0.total_cmp(&b.0));
            spent.truncate(REPLACED_MAX);
        }
        spent.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        self.replaceable = spent.into_iter().map(|(_, url)| url.clone()).collect();
    }

    /// Frees the entry of the URL on which the least time was spent. A request in flight keeps its entry: it will end.
    fn replace_one(&mut self) {
        while let Some(url) = self.replaceable.pop() {
            let Some(index) = self.indexes.get(&url).copied() else { continue };
            if let Some(entry) = self.entries.get_mut(index).filter(|it| it.running.count == 0) {
                *entry = Entry::default();
                self.indexes.remove(&url);
                self.name_bytes -= url.len();
                self.free.push(index);
                return;
            }
        }
    }

    /// All entries: those of one URL each, and the one that the others share.
    fn all(&self) -> impl Iterator<Item = (Option<&str>, &Entry)> {
        let named = self.indexes.iter().map(|(url, index)| (Some(&**url), *index));
        let all = named.chain([(None, OTHER)]);
        all.filter_map(|(url, index)| Some((url, self.entries.get(index)?)))
    }
}

impl Default for Entry {
    fn default() -> Self {
        let none = [0; SLOTS];
        let running = Running::default();
        Self { newest: 0, begun: none, ended: none, took: none, running, busiest: 0 }
    }
}

impl Entry {
    fn begin(&mut self, now: Timestamp) {
        let slot = self.slot(now);
        self.begun[slot] = self.begun[slot].saturating_add(1);
        self.running.begin(now);
    }

    fn end(&mut self, begun: Timestamp, now: Timestamp) {
        self.ended(now.since(begun), now);
        self.running.end(begun);
    }

    fn take_back(&mut self, begun: Timestamp) {
        self.running.end(begun);
        let second = begun.as_micros() / SLOT_US;
        // A minute later it is forgotten anyway.
        if self.newest.saturating_sub(second) < SLOTS as u64 {
            let count = &mut self.begun[slot_of(second)];
            *count = count.saturating_sub(1);
        }
    }

    fn note(&mut self, took: Duration, now: Timestamp) {
        let slot = self.slot(now);
        self.begun[slot] = self.begun[slot].saturating_add(1);
        self.ended(took, now);
    }

    fn ended(&mut self, took: Duration, now: Timestamp) {
        let slot = self.slot(now);
        let took = u32::try_from(took.as_micros() / 100).unwrap_or(u32::MAX);
        self.ended[slot] = self.ended[slot].saturating_add(1);
        self.took[slot] = self.took[slot].saturating_add(took);
    }

    /// The slot of this second, after emptying the slots that have expired. If the clock stepped back, the newest slot.
    fn slot(&mut self, now: Timestamp) -> usize {
        let second = now.as_micros() / SLOT_US;
        for stale in (self.newest + 1..=second).rev().take(SLOTS) {
            let slot = slot_of(stale);
            (self.begun[slot], self.ended[slot], self.took[slot]) = (0, 0, 0);
        }
        self.newest = self.newest.max(second);
        slot_of(self.newest)
    }

    fn summary(&self, now: Timestamp) -> UrlSummary {
        let second = now.as_micros() / SLOT_US;
        // Seconds that are a minute old by now, but were not emptied yet.
        let expired = second.saturating_sub(self.newest).min(SLOTS as u64);
        let kept = (self.newest + 1 + expired).saturating_sub(SLOTS as u64)..=self.newest;
        let sum =
            |of: &[u32; SLOTS]| kept.clone().map(|it| u64::from(of[slot_of(it)])).sum::<u64>();
        let known = sum(&self.ended) + self.running.count;
        let took_ms = float(sum(&self.took)) / 10.0 + float(self.running.age_us(now)) / 1000.0;
        UrlSummary {
            count: sum(&self.begun),
            mean_ms: if known == 0 { 0.0 } else { took_ms / float(known) },
            busiest: self.busiest,
        }
    }
}

fn slot_of(second: u64) -> usize {
    usize::try_from(second % SLOTS as u64).unwrap_or(0)
}
