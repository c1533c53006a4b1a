//! What callers say about the services behind them: how long they took, and whether they answered. Kept for a minute,
//! in this process, for a bounded number of targets.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use tidegate::Timestamp;
use tidegate::adaptive::{Observation, Priority, Target as Listener};

use tidegate_config::plan::ALL;

/// How many targets are kept.
const TARGETS_MAX: usize = 256;
/// A minute is twelve slots of five seconds.
const SLOT_US: u64 = 5_000_000;
const SLOTS: usize = 12;
/// Four steps for each doubling, up to a bit more than two minutes.
const STEPS: usize = 108;

/// All targets.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    targets: Mutex<BTreeMap<String, Target>>,
    /// Whose limits follow it, by target.
    listeners: ArcSwap<BTreeMap<String, Listener>>,
}

/// There are as many targets as can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooManyTargets;

#[derive(Debug, Default)]
struct Target {
    slots: [Slot; SLOTS],
    /// What an operator has set.
    pressure: Option<f64>,
}

#[derive(Debug)]
struct Slot {
    /// Which five seconds since 1970.
    number: u64,
    count: u64,
    errors: u64,
    sum_us: u64,
    steps: [u32; STEPS],
}

/// What is known of a target.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) errors: u64,
    pub(crate) mean_us: u64,
    /// The upper edge of the step that it falls into: at most a quarter too much.
    pub(crate) p99_us: u64,
    pub(crate) pressure: Option<f64>,
}

impl Default for Slot {
    fn default() -> Self {
        Self { number: 0, count: 0, errors: 0, sum_us: 0, steps: [0; STEPS] }
    }
}

impl Observed {
    /// Notes one answer of a target.
    pub(crate) fn note(
        &self,
        target: &str,
        latency_us: u64,
        ok: bool,
        now: Timestamp,
    ) -> Result<(), TooManyTargets> {
        self.passed(target, latency_us, ok, now)?;
        let latency = Duration::from_micros(latency_us);
        self.listening(target, |_, listener| listener.observe(latency, ok));
        Ok(())
    }

    /// A request leaves for a URL of a target. It is measured for those who follow it, until what is returned ends.
    /// `None` if as many are under way as the pool of the target can bear.
    pub(crate) fn enter(
        &self,
        target: &str,
        url: &str,
        priority: Option<Priority>,
    ) -> Option<Vec<Observation>> {
        let (mut entered, mut is_full) = (Vec::new(), false);
        self.listening(target, |_, listener| match listener.enter(priority) {
            Some(place) if !is_full => entered.push(place.of_url(url)),
            place => {
                is_full = true;
                place.into_iter().for_each(Observation::refused);
            }
        });
        if is_full {
            // Whoever is turned away was never under way to any of them.
            entered.drain(..).for_each(Observation::refused);
            return None;
        }
        Some(entered)
    }

    /// Whether a request to a target would find a place there, without taking it.
    pub(crate) fn has_place(&self, target: &str, priority: Option<Priority>) -> bool {
        let mut has_place = true;
        self.listening(target, |_, listener| has_place &= listener.has_place(priority));
        has_place
    }

    /// Notes an answer to a request that was measured so.
    pub(crate) fn passed(
        &self,
        target: &str,
        latency_us: u64,
        ok: bool,
        now: Timestamp,
    ) -> Result<(), TooManyTargets> {
        self.with(target, now, |target| target.note(latency_us, ok, now))?;
        self.listening(target, |name, _| {
            if name != target {
                // Beyond the bound its listener knows it all the same.
                let _ = self.with(name, now, |all| all.note(latency_us, ok, now));
            }
        });
        Ok(())
    }

    /// Notes how long a URL of a target took: a normalised path, without its query.
    pub(crate) fn note_url(&self, target: &str, url: &str, latency_us: u64) {
        let latency = Duration::from_micros(latency_us);
        self.listening(target, |_, listener| listener.observe_url(url, latency));
    }

    /// Notes how long a request waited in the queue of a target.
    pub(crate) fn note_wait(&self, target: &str, wait_us: u64) {
        self.listening(target, |_, listener| listener.observe_wait(Duration::from_micros(wait_us)));
    }

    /// Who is told from now on.
    pub(crate) fn tell(&self, listeners: BTreeMap<String, Listener>) {
        self.listeners.store(listeners.into());
    }

    /// Those who follow a target, and those who follow all.
    fn listening(&self, target: &str, mut then: impl FnMut(&str, &Listener)) {
        let listeners = self.listeners.load();
        if listeners.is_empty() {
            return;
        }
        for name in [Some(target), Some(ALL).filter(|all| *all != target)].into_iter().flatten() {
            if let Some(listener) = listeners.get(name) {
                then(name, listener);
            }
        }
    }

    /// How long a target took on average in the last minute; `None` if nobody asked it.
    #[expect(clippy::cast_precision_loss, reason = "an hour in microseconds is exact")]
    pub(crate) fn mean_ms(&self, target: &str, now: Timestamp) -> Option<f64> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        let summary = targets.get(target)?.summary(now);
        (summary.count > 0).then(|| summary.mean_us as f64 / 1000.0)
    }

    /// What operators say, by target.
    pub(crate) fn said(&self) -> BTreeMap<String, f64> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.iter().filter_map(|(name, it)| Some((name.clone(), it.pressure?))).collect()
    }

    /// Sets what an operator says of a target, or forgets it.
    pub(crate) fn set(
        &self,
        target: &str,
        pressure: Option<f64>,
        now: Timestamp,
    ) -> Result<(), TooManyTargets> {
        self.with(target, now, |target| target.pressure = pressure)
    }

    /// All targets of which there is something to tell.
    pub(crate) fn summaries(&self, now: Timestamp) -> BTreeMap<String, Summary> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|_, target| target.is_alive(now));
        targets.iter().map(|(name, target)| (name.clone(), target.summary(now))).collect()
    }

    fn with(
        &self,
        name: &str,
        now: Timestamp,
        then: impl FnOnce(&mut Target),
    ) -> Result<(), TooManyTargets> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = targets.get_mut(name) {
            then(target);
            return Ok(());
        }
        if targets.len() == TARGETS_MAX {
            targets.retain(|_, target| target.is_alive(now));
        }
        if targets.len() == TARGETS_MAX {
            return Err(TooManyTargets);
        }
        then(targets.entry(name.to_owned()).or_default());
        Ok(())
    }
}

impl Target {
    fn note(&mut self, latency_us: u64, ok: bool, now: Timestamp) {
        let slot = self.slot(now);
        slot.count += 1;
        slot.errors += u64::from(!ok);
        slot.sum_us = slot.sum_us.saturating_add(latency_us);
        let step = &mut slot.steps[step_of(latency_us)];
        *step = step.saturating_add(1);
    }

    fn slot(&mut self, now: Timestamp) -> &mut Slot {
        let number = now.as_micros() / SLOT_US;
        let slot = &mut self.slots[index(number)];
        if slot.number != number {
            *slot = Slot { number, ..Slot::default() };
        }
        slot
    }

    fn recent(&self, now: Timestamp) -> impl Iterator<Item = &Slot> {
        let newest = now.as_micros() / SLOT_US;
        let within = move |slot: &&Slot| newest.abs_diff(slot.number) < SLOTS as u64;
        self.slots.iter().filter(|slot| slot.count > 0).filter(within)
    }

    fn is_alive(&self, now: Timestamp) -> bool {
        self.pressure.is_some() || self.recent(now).next().is_some()
    }

    fn summary(&self, now: Timestamp) -> Summary {
        let sum = |of: fn(&Slot) -> u64| self.recent(now).map(of).fold(0, u64::saturating_add);
        let count = sum(|slot| slot.count);
        Summary {
            count,
            errors: sum(|slot| slot.errors),
            mean_us: sum(|slot| slot.sum_us) / count.max(1),
            p99_us: self.p99_us(count, now),
            pressure: self.pressure,
        }
    }

    fn p99_us(&self, count: u64, now: Timestamp) -> u64 {
        let rank = (count * 99).div_ceil(100);
        let mut below = 0;
        let found = (0..STEPS).find(|step| {
            below += self.recent(now).map(|slot| u64::from(slot.steps[*step])).sum::<u64>();
            below >= rank
        });
        found.filter(|_| count > 0).map_or(0, edge_of)
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % SLOTS as u64).unwrap_or(0)
}

fn step_of(us: u64) -> usize {
    if us < 4 {
        return usize::try_from(us).unwrap_or(0);
    }
    let doublings = u64::from(us.ilog2());
    let step = (doublings - 1) * 4 + (us >> (doublings - 2)) % 4;
    usize::try_from(step).unwrap_or(STEPS).min(STEPS - 1)
}

/// The largest latency of a step.
fn edge_of(step: usize) -> u64 {
    let step = step as u64;
    if step < 4 {
        return step;
    }
    let (doublings, quarter) = (step / 4 + 1, step % 4);
    ((4 + quarter + 1) << (doublings - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros((1_700_000_000 + seconds) * 1_000_000)
    }

    #[test]
    fn a_minute_is_summed_up_and_then_forgotten() {
        let observed = Observed::default();
        for latency_ms in 1..=100 {
            observed.note("db", latency_ms * 1000, latency_ms != 7, at(latency_ms / 2)).unwrap();
        }
        let summary = observed.summaries(at(50))["db"];
        assert_eq!((summary.count, summary.errors, summary.mean_us), (100, 1, 50_500));
        assert!((99_000..=124_000).contains(&summary.p99_us), "{}", summary.p99_us);
        assert!(observed.summaries(at(80))["db"].count < 100);
        assert!(observed.summaries(at(200)).is_empty());
    }

    #[test]
    fn what_an_operator_says_stays() {
        let observed = Observed::default();
        observed.set("db", Some(0.7), at(0)).unwrap();
        assert_eq!(observed.summaries(at(3600))["db"].pressure, Some(0.7));
        observed.set("db", None, at(3600)).unwrap();
        assert!(observed.summaries(at(3600)).is_empty());
    }

    #[test]
    fn targets_are_bounded_and_the_silent_make_room() {
        let observed = Observed::default();
        for target in 0..TARGETS_MAX {
            observed.note(&target.to_string(), 1, true, at(0)).unwrap();
        }
        assert_eq!(observed.note("one more", 1, true, at(1)), Err(TooManyTargets));
        assert_eq!(observed.note("one more", 1, true, at(90)), Ok(()));
        assert_eq!(observed.summaries(at(90)).len(), 1);
    }

    #[test]
    fn who_finds_no_place_is_not_noted_anywhere() {
        let (observed, runtime) = (Observed::default(), tidegate::adaptive::Adaptive::default());
        let names = ["app", ALL];
        observed.tell(names.map(|name| (name.to_owned(), runtime.target(name))).into());
        for full in names {
            let target = runtime.target(full);
            target.set_pool(1).unwrap();
            assert!(observed.has_place("app", None));
            let held: Vec<_> = (0..3).filter_map(|_| observed.enter("app", "/", None)).collect();
            assert_eq!(held.len(), 2, "{full}");
            assert!(
                !observed.has_place("app", None)
                    && observed.has_place("other", None) == (full == "app")
            );
            for other in names {
                let known = runtime.target(other);
                assert_eq!(
                    (known.in_flight(), known.busiest_urls(1)[0].1.count % 2),
                    (2, 0),
                    "{other}"
                );
            }
            drop(held);
            target.set_cap(None);
        }
    }

    #[test]
    fn steps_and_edges_agree() {
        for us in (0..5000).chain([1 << 20, (1 << 27) - 1]) {
            let step = step_of(us);
            assert!(us <= edge_of(step) && (step == 0 || us > edge_of(step - 1)), "{us}");
        }
        assert_eq!(step_of(u64::MAX), STEPS - 1);
    }
}
