//! A flight: the steps of one batch, from the read to the write.

use std::collections::HashMap;
use std::time::Duration;

use tidegate::store_kit::NetworkCounters;
use tidegate::{Clock, Ran, StoreError, StoreErrorKind, SystemClock, Timestamp};
use tokio::time::{Instant, timeout_at};

use crate::backend::{Backend, Commit, ItemKey, Reading, Snapshot, Update, Wanted, Written};
use crate::step::{Content, Step, Working};

/// A stored time that is further ahead than this was written by a clock that was wrong: it does not hold time back.
const SEEN_AHEAD_MAX: Duration = Duration::from_secs(1);

/// What a batch left to do.
#[derive(Default)]
pub(crate) struct Landed {
    /// Steps to decide again: another node changed their items meanwhile, or the commit had no room for them.
    pub(crate) again: Vec<Step>,
    /// Whether the backend asked for fewer requests.
    pub(crate) overloaded: bool,
}

/// Runs the steps of one batch.
pub(crate) async fn fly<B: Backend>(
    backend: &B,
    counters: &NetworkCounters,
    steps: Vec<Step>,
    replays: bool,
) -> Landed {
    let mut keys = distinct_keys(&steps);
    // A step that is due earlier is answered by its own reply.
    let Some(due) = steps.iter().map(|step| step.due).max() else { return Landed::default() };
    let began = Instant::now();
    let read = match timeout_at(due, backend.read_wanted(&keys.wanted, due)).await {
        Ok(read) => read.and_then(|reading| complete(reading, keys.wanted.keys.len())),
        Err(_) => {
            Err(StoreError::new(StoreErrorKind::NotSent, "no answer to a read within the deadline"))
        }
    };
    counters.calls.add(1);
    counters.times.add(began.elapsed());
    let Reading { snapshot, failed } = match read {
        Ok(reading) => reading,
        Err(error) => return fail_all(steps, counters, &not_run(error)),
    };
    let rules = Rules {
        replays,
        several_clocks: backend.has_several_clocks(),
        commit_items_max: backend.commit_items_max(),
    };
    let steps = fail_unread(steps, &mut keys, failed, counters);
    let mut decided = decide(steps, keys, snapshot, rules);
    let again = std::mem::take(&mut decided.no_room);
    let (commits, components) = decided.finish_unchanged(backend.item_bytes_max());
    if commits.is_empty() {
        return Landed { again, overloaded: false };
    }
    let began = Instant::now();
    let written = match timeout_at(due, backend.write(&commits, due)).await {
        Ok(Ok(written)) if written.len() == commits.len() => Ok(written),
        Ok(Ok(_)) => {
            Err(StoreError::new(StoreErrorKind::Protocol, "not every commit was answered"))
        }
        Ok(Err(error)) => Err(error),
        Err(_) => Err(StoreError::new(
            StoreErrorKind::Timeout,
            "no answer to a write within the deadline",
        )),
    };
    counters.calls.add(1);
    counters.times.add(began.elapsed());
    let mut landed = match written {
        Ok(written) => settle(components, written, counters),
        Err(error) => fail_all(components.into_iter().flatten().collect(), counters, &error),
    };
    landed.again.extend(again);
    landed
}

/// The keys of a batch, each once.
struct Keys {
    wanted: Wanted,
    /// Where the keys of all steps are in `wanted`, one step after another.
    places: Vec<usize>,
}

fn distinct_keys(steps: &[Step]) -> Keys {
    let mut known: HashMap<&str, usize> = HashMap::with_capacity(steps.len());
    let (mut wanted, mut places) = (Wanted::default(), Vec::with_capacity(steps.len()));
    for (key, step) in steps.iter().flat_map(|step| step.keys.iter().map(move |key| (key, step))) {
        let place = *known.entry(key).or_insert_with(|| {
            wanted.keys.push(key.clone());
            wanted.lives_max.push(Duration::ZERO);
            wanted.keys.len() - 1
        });
        wanted.lives_max[place] = wanted.lives_max[place].max(step.life_max);
        places.push(place);
    }
    Keys { wanted, places }
}

fn complete<V>(reading: Reading<V>, expected: usize) -> Result<Reading<V>, StoreError> {
    if reading.snapshot.items.len() == expected {
        return Ok(reading);
    }
    Err(StoreError::new(StoreErrorKind::Protocol, "not every item was read"))
}

/// Fails the steps on items that could not be read, and returns the others. `keys` keeps the places of those.
fn fail_unread(
    steps: Vec<Step>,
    keys: &mut Keys,
    failed: Vec<(usize, StoreError)>,
    counters: &NetworkCounters,
) -> Vec<Step> {
    if failed.is_empty() {
        return steps;
    }
    let failed: HashMap<usize, StoreError> = failed.into_iter().collect();
    let all = std::mem::take(&mut keys.places);
    let mut rest = &*all;
    let mut read = Vec::with_capacity(steps.len());
    for step in steps {
        let (own, others) = rest.split_at(step.keys.len());
        rest = others;
        if let Some(error) = own.iter().find_map(|place| failed.get(place)) {
            fail_all(vec![step], counters, &not_run(error.clone()));
        } else {
            keys.places.extend_from_slice(own);
            read.push(step);
        }
    }
    read
}

/// What an error of a read means for a step: nothing was written yet, so that it has certainly not run.
fn not_run(error: StoreError) -> StoreError {
    match (error.ran(), error.kind()) {
        (Ran::No, _) => error,
        (Ran::Unknown, StoreErrorKind::Timeout) => {
            StoreError::new(StoreErrorKind::NotSent, error.to_string())
        }
        (Ran::Unknown, _) => StoreError::new(StoreErrorKind::Unreachable, error.to_string()),
    }
}

/// Steps that were decided on copies of their items, and not written yet.
struct Decided<V> {
    steps: Vec<(Step, usize)>,
    /// For each item the component that it belongs to: items that a step has in common are committed together.
    components: Components,
    items: Vec<(ItemKey, Option<V>, Working)>,
    /// Steps that would have made a commit larger than the backend can write.
    no_room: Vec<Step>,
}

/// What a batch is decided by.
#[derive(Clone, Copy)]
struct Rules {
    /// Whether the caller's time counts.
    replays: bool,
    /// Whether the time comes from one of several servers.
    several_clocks: bool,
    commit_items_max: usize,
}

/// Decides all steps in order, each on what the ones before it left.
fn decide<V: Clone>(
    steps: Vec<Step>,
    keys: Keys,
    snapshot: Snapshot<V>,
    rules: Rules,
) -> Decided<V> {
    let mut versions = Vec::with_capacity(snapshot.items.len());
    let mut working = Vec::with_capacity(snapshot.items.len());
    for stored in snapshot.items {
        versions.push(stored.version);
        working.push(Working { content: Content::Bytes(stored.bytes), changed: None });
    }
    let mut components = Components::new(keys.wanted.keys.len());
    let mut decided = Vec::with_capacity(steps.len());
    let mut no_room = Vec::new();
    let mut places = &*keys.places;
    let arrived = Instant::now();
    for mut step in steps {
        let (own, rest) = places.split_at(step.keys.len());
        places = rest;
        if step.due <= arrived {
            // Its caller was told that it failed: it must not be charged now.
            step.fail(StoreError::new(
                StoreErrorKind::NotSent,
                "the deadline passed before it was decided",
            ));
            continue;
        }
        let Some(&first) = own.first() else { continue };
        if components.joined_size(own) > rules.commit_items_max {
            no_room.push(step);
            continue;
        }
        on_items(&mut working, own, |items| {
            let now = match snapshot.now {
                _ if rules.replays => step.now,
                Some(now) if rules.several_clocks && !step.is_on_records => latest(now, items),
                Some(now) => now,
                None if step.is_on_records => SystemClock.now(),
                None => not_before(SystemClock.now(), items),
            };
            step.decide.decide(items, now);
        });
        for place in own {
            components.join(first, *place);
        }
        decided.push((step, first));
    }
    let items = keys.wanted.keys.into_iter().zip(versions).zip(working);
    let items = items.map(|((key, version), item)| (key, version, item)).collect();
    Decided { steps: decided, components, items, no_room }
}

/// Lends the items at some places, which are mostly one.
fn on_items(working: &mut [Working], places: &[usize], then: impl FnOnce(&mut [Working])) {
    if let [place] = places {
        return then(std::slice::from_mut(&mut working[*place]));
    }
    let mut items: Vec<Working> =
        places.iter().map(|place| std::mem::take(&mut working[*place])).collect();
    then(&mut items);
    for (place, item) in places.iter().zip(items) {
        working[*place] = item;
    }
}

/// This node's time, or the latest that was decided at on one of the items: for a key, time does not step back.
fn not_before(now: Timestamp, items: &mut [Working]) -> Timestamp {
    let seen = items.iter_mut().filter_map(|item| item.states().ok().map(|item| item.seen));
    let ahead = seen.filter(|seen| *seen <= now + SEEN_AHEAD_MAX);
    ahead.fold(now, Timestamp::max)
}

/// The servers' time, or the latest that was decided at, however far ahead: a majority that goes by another clock must
/// not refill twice. If that clock was wrong, the items that it decided get nothing more until they have run out, which
/// they do by the time that passes.
fn latest(now: Timestamp, items: &mut [Working]) -> Timestamp {
    let seen = items.iter_mut().filter_map(|item| item.states().ok().map(|item| item.seen));
    seen.fold(now, Timestamp::max)
}

impl<V: Clone> Decided<V> {
    /// Answers the steps that changed nothing and saw no change. An item that was only read is not compared again: each
    /// counter is guarded by its own version, and what was read held at the time of the read. Returns what has to be written, and who waits for it.
    fn finish_unchanged(mut self, bytes_max: usize) -> (Vec<Commit<V>>, Vec<Vec<Step>>) {
        // For each root the number of its commit.
        let mut of_root: Vec<Option<usize>> = vec![None; self.items.len()];
        let (mut commits, mut waiting) =
            (Vec::with_capacity(self.items.len()), Vec::with_capacity(self.items.len()));
        for (place, (key, expected, item)) in self.items.into_iter().enumerate() {
            let Some(changed) = item.changed else { continue };
            let root = self.components.root(place);
            let number = *of_root[root].get_or_insert_with(|| {
                commits.push(Commit { updates: Vec::with_capacity(1) });
                waiting.push(Vec::with_capacity(1));
                commits.len() - 1
            });
            let (bytes, life) = item.into_bytes(changed);
            commits[number].updates.push(Update { key, expected, bytes, life });
        }
        for (step, place) in self.steps {
            match of_root[self.components.root(place)] {
                Some(number) => waiting[number].push(step),
                None => step.decide.answer(Ok(())),
            }
        }
        let fits = |commit: &Commit<V>| {
            commit.updates.iter().all(|update| update.bytes.len() <= bytes_max)
        };
        if commits.iter().all(fits) {
            return (commits, waiting);
        }
        let (fitting, too_large): (Vec<_>, Vec<_>) =
            commits.into_iter().zip(waiting).partition(|(commit, _)| fits(commit));
        for step in too_large.into_iter().flat_map(|(_, steps)| steps) {
            let why = "the state is larger than what this store keeps in one item";
            step.fail(StoreError::new(StoreErrorKind::Unsupported, why));
        }
        fitting.into_iter().unzip()
    }
}

/// Answers the steps whose commit was written or failed, and returns the others.
fn settle(components: Vec<Vec<Step>>, written: Vec<Written>, counters: &NetworkCounters) -> Landed {
    let mut landed = Landed::default();
    for (steps, written) in components.into_iter().zip(written) {
        match written {
            Written::Done => steps.into_iter().for_each(|step| step.decide.answer(Ok(()))),
            Written::Changed => {
                counters.conflicts.add(steps.len());
                let tried = |step: Step| Step { attempts: step.attempts + 1, ..step };
                landed.again.extend(steps.into_iter().map(tried));
            }
            Written::Failed(error) => {
                landed.overloaded |= fail_all(steps, counters, &error).overloaded;
            }
        }
    }
    landed
}

fn fail_all(steps: Vec<Step>, counters: &NetworkCounters, error: &StoreError) -> Landed {
    match error.kind() {
        StoreErrorKind::Timeout => counters.timeouts.add(steps.len()),
        StoreErrorKind::NotSent => counters.not_sent.add(steps.len()),
        StoreErrorKind::Overloaded => counters.overloaded.add(steps.len()),
        _ => {}
    }
    for step in steps {
        step.fail(error.clone());
    }
    Landed { again: Vec::new(), overloaded: error.kind() == StoreErrorKind::Overloaded }
}

/// Which items belong together: a union of sets.
struct Components {
    parents: Vec<usize>,
    /// How many items the set of a root has.
    sizes: Vec<usize>,
}

impl Components {
    fn new(count: usize) -> Self {
        Self { parents: (0..count).collect(), sizes: vec![1; count] }
    }

    fn root(&mut self, mut place: usize) -> usize {
        while self.parents[place] != place {
            self.parents[place] = self.parents[self.parents[place]];
            place = self.parents[place];
        }
        place
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        if a != b {
            self.parents[a] = b;
            self.sizes[b] += self.sizes[a];
        }
    }

    /// How many items would be together if these were joined.
    fn joined_size(&mut self, places: &[usize]) -> usize {
        if let [place] = places {
            let root = self.root(*place);
            return self.sizes[root];
        }
        let mut roots: Vec<usize> = places.iter().map(|place| self.root(*place)).collect();
        roots.sort_unstable();
        roots.dedup();
        roots.into_iter().map(|root| self.sizes[root]).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::backend::Stored;
    use crate::item::{Item, SlotName};

    #[tokio::test]
    async fn a_record_whose_bytes_look_like_states_is_read_as_it_is() {
        let (limit, mut state): (tidegate_core::Limit, _) =
            ("5/h".parse().unwrap(), tidegate_core::State::Empty);
        let now = SystemClock.now();
        assert!(limit.take(&mut state, now, 1).allowed());
        let mut item = Item::default();
        item.put(&SlotName { limit: "".into(), letter: 'a' }, state);
        let bytes = item.to_bytes(now).0;
        let (seen, sees) = mpsc::channel();
        let look = move |items: &mut [Working], _| {
            seen.send(items[0].record().to_vec()).unwrap();
            Ok(())
        };
        let due = Instant::now() + Duration::from_mins(1);
        let (step, _reply) = Step::new(vec!["r".into()], look, now, due);
        let steps = vec![step.on_records()];
        let keys = distinct_keys(&steps);
        let stored = Stored { version: Some(1), bytes: bytes.clone() };
        let rules = Rules { replays: false, several_clocks: false, commit_items_max: 1 };
        decide(steps, keys, Snapshot { now: None, items: vec![stored] }, rules);
        assert_eq!(sees.recv().unwrap(), bytes);
    }
}
