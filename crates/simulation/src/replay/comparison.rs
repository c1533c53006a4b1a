//! An access log through two configurations: what the new one changes for whom.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};

use serde::Serialize;

use super::counts::ReplayCounts;
use super::lines::Lines;
use super::plans::{DEFAULT_HEADER, entry, plan_of};
use super::record::{LogTime, Record, rfc_3339_utc};
use super::replayer::{Replayer, Verdict};
use super::report::{notes, percent};
use super::{Unreadable, with_text};
use crate::StopFlag;
use tidegate_core::text::printable;

/// Clients that are counted one by one. Later ones are counted together.
const CLIENTS_MAX: usize = 200_000;

/// Requests by what becomes of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Flips {
    pub requests: u64,
    /// Admitted by the old configuration, and denied by the new one. What is denied in shadow is admitted.
    pub newly_denied: u64,
    /// Denied by the old configuration, and admitted by the new one.
    pub newly_admitted: u64,
    /// Denied by both.
    pub denied_by_both: u64,
}

impl Flips {
    const fn add(&mut self, before: bool, now: bool) {
        self.requests += 1;
        match (before, now) {
            (false, true) => self.newly_denied += 1,
            (true, false) => self.newly_admitted += 1,
            (true, true) => self.denied_by_both += 1,
            (false, false) => {}
        }
    }

    /// Requests that are decided otherwise.
    pub const fn count(&self) -> u64 {
        self.newly_denied + self.newly_admitted
    }

    /// The share of requests that are newly denied, in percent.
    pub fn newly_denied_percent(&self) -> f64 {
        percent(self.newly_denied, self.requests)
    }
}

/// A policy, or a plan, and what changes for its requests.
#[derive(Debug, Serialize)]
pub struct FlipRow {
    pub name: String,
    #[serde(flatten)]
    pub flips: Flips,
    pub newly_denied_percent: f64,
}

/// A client for whom something changes.
#[derive(Debug, Serialize)]
pub struct ChangedClient {
    pub client: String,
    #[serde(flatten)]
    pub flips: Flips,
    /// The first request that is decided otherwise, and the last.
    pub first: String,
    pub last: String,
}

#[derive(Debug, Serialize)]
pub struct ComparisonReport {
    pub lines: u64,
    pub from: Option<String>,
    pub until: Option<String>,
    pub unreadable: u64,
    pub first_unreadable: Vec<Unreadable>,
    /// Requests that are decided otherwise.
    pub flips: u64,
    #[serde(flatten)]
    pub total: Flips,
    /// By the policy of the new configuration, or of the old one where the new one has none for the request.
    pub policies: Vec<FlipRow>,
    /// By the header that names the plan, where the log has it.
    pub plans: Vec<FlipRow>,
    pub clients_changed: usize,
    /// Those for whom most changes first.
    pub clients: Vec<ChangedClient>,
    /// Changes for clients beyond those that are counted one by one.
    pub flips_of_others: u64,
    pub notes: Vec<String>,
}

#[derive(Default)]
struct Comparison {
    counts: ReplayCounts,
    total: Flips,
    policies: BTreeMap<String, Flips>,
    plans: BTreeMap<String, Flips>,
    clients: HashMap<String, ClientFlips>,
    flips_of_others: u64,
}

#[derive(Default)]
struct ClientFlips {
    flips: Flips,
    first_us: u64,
    last_us: u64,
}

/// Sends every line of a log through both, and lists up to `top` of the clients for whom most changes.
pub fn compare(
    (old, new): (&Replayer, &Replayer),
    log: impl Read,
    top: usize,
    stop: &StopFlag,
    mut progress: impl FnMut(u64, u64),
) -> io::Result<ComparisonReport> {
    let mut comparison = Comparison::default();
    let mut lines = Lines::new(log);
    while !stop.is_stopped()
        && let Some(line) = lines.next()?
    {
        comparison.counts.lines += 1;
        match line {
            Err(error) => comparison.counts.unreadable(&error),
            Ok(line) => with_text(line, |line| comparison.line((old, new), line)),
        }
        progress(comparison.counts.lines, lines.bytes);
    }
    comparison.counts.evicted = old.evicted().saturating_add(new.evicted());
    Ok(comparison.report(top))
}

impl Comparison {
    fn line(&mut self, (old, new): (&Replayer, &Replayer), line: &str) {
        let decided = Record::read(line, true).and_then(|record| {
            self.counts.at(record.at);
            let (before, now) = (old.verdict(&record)?, new.verdict(&record)?);
            let plan = new.plan_header().unwrap_or(DEFAULT_HEADER);
            Ok((record.at, before, now, plan_of(&record, plan)))
        });
        match decided {
            Ok((at, before, now, plan)) => self.add(at, &before, now, plan),
            Err(error) => self.counts.unreadable(&error),
        }
    }

    fn add(&mut self, at: LogTime, before: &Verdict<'_>, now: Verdict<'_>, plan: Option<String>) {
        if before.not_replayed || now.not_replayed {
            // What one file is not known to decide cannot be decided otherwise.
            self.counts.not_replayed += 1;
            return;
        }
        let (was, is) = (before.refused, now.refused);
        self.counts.lacks(now.lacks);
        self.counts.shadow_denied += u64::from(before.shadow_denied || now.shadow_denied);
        self.total.add(was, is);
        if let Some(policy) = now.policy.or(before.policy) {
            self.policies.entry(policy.to_owned()).or_default().add(was, is);
        }
        if let Some(plan) = plan {
            entry(&mut self.plans, plan).add(was, is);
        }
        let has_room = self.clients.len() < CLIENTS_MAX || self.clients.contains_key(&now.client);
        if has_room {
            self.clients.entry(now.client).or_default().add(at.us, was, is);
        } else {
            self.flips_of_others += u64::from(was != is);
        }
    }

    fn report(self, top: usize) -> ComparisonReport {
        let rows = |flips: BTreeMap<String, Flips>| {
            let row = |(name, flips): (String, Flips)| {
                let newly_denied_percent = flips.newly_denied_percent();
                FlipRow { name, flips, newly_denied_percent }
            };
            flips.into_iter().map(row).collect()
        };
        let mut changed: Vec<_> =
            self.clients.into_iter().filter(|(_, it)| it.flips.count() > 0).collect();
        changed.sort_unstable_by(|(a, x), (b, y)| {
            y.flips.count().cmp(&x.flips.count()).then_with(|| a.cmp(b))
        });
        let clients_changed = changed.len();
        let client = |(client, it): (String, ClientFlips)| ChangedClient {
            client: printable(&client),
            flips: it.flips,
            first: rfc_3339_utc(it.first_us),
            last: rfc_3339_utc(it.last_us),
        };
        ComparisonReport {
            lines: self.counts.lines,
            from: self.counts.span.map(|(first, _)| rfc_3339_utc(first)),
            until: self.counts.span.map(|(_, last)| rfc_3339_utc(last)),
            unreadable: self.counts.unreadable,
            flips: self.total.count(),
            total: self.total,
            policies: rows(self.policies),
            plans: rows(self.plans),
            clients_changed,
            clients: changed.into_iter().take(top).map(client).collect(),
            flips_of_others: self.flips_of_others,
            notes: notes(&self.counts),
            first_unreadable: self.counts.shown,
        }
    }
}

impl ClientFlips {
    const fn add(&mut self, at_us: u64, was: bool, is: bool) {
        self.flips.add(was, is);
        if was == is {
            return;
        }
        if self.flips.count() == 1 {
            (self.first_us, self.last_us) = (at_us, at_us);
        }
        self.last_us = at_us;
    }
}

impl ComparisonReport {
    /// Whether there were lines, and none of them is a line of an access log.
    pub const fn is_no_log(&self) -> bool {
        self.lines > 0 && self.unreadable == self.lines
    }
}
