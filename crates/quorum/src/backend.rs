//! The backend: to read is to have a ballot promised, to write is to have a value accepted.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tidegate::driver::StoreServer;
use tidegate::store_kit::NetworkCounters;
use tidegate::{StoreError, StoreErrorKind, Timestamp};
use tidegate_cas::{Backend, Commit, ItemKey, Reading, Snapshot, Stored, Wanted, Written};
use tokio::time::{Instant, sleep};

use crate::absence::absence;
use crate::ballot::Ballot;
use crate::node::Node;
use crate::rounds::{Outcome, Progress, resolve};
use crate::servers::{PrepareRound, Proposal, RoundItem, Servers};
use crate::url::QuorumUrl;
use crate::value::{Descent, Lineage, Value};

/// The most bytes of one item.
const ITEM_BYTES_MAX: usize = 256 << 10;

/// The most ballots of one read, and of one search for what has become of a write. The deadline comes first.
const BALLOTS_MAX: u32 = 64;

/// The longest pause before another ballot, doubled with each up to [`PAUSE_DOUBLINGS`].
const PAUSE_UNIT: Duration = Duration::from_micros(500);
const PAUSE_DOUBLINGS: u32 = 4;

/// How long an item that was removed is remembered at least.
const REMOVED_LIFE_MIN: Duration = Duration::from_secs(10);

/// Several independent Redis servers, of which a majority decides.
#[derive(Debug)]
pub struct QuorumBackend {
    servers: Servers,
    random: RandomState,
}

/// An item as it was read: the ballot that was promised for it, and what a value written at it descends from.
#[derive(Clone, Debug)]
pub struct QuorumVersion {
    ballot: Ballot,
    lineage: Lineage,
    life_max: Duration,
}

/// A write of ours that some server may have.
struct Undecided {
    place: usize,
    item: RoundItem,
    ours: Ballot,
}

impl QuorumBackend {
    /// A backend that connects when it is asked. Needs a running tokio runtime.
    pub fn new(
        url: &QuorumUrl,
        key_prefix: &str,
        counters: &Arc<NetworkCounters>,
    ) -> Result<Self, StoreError> {
        let access = url.access()?;
        let node = |endpoint: &tidegate_redis::Endpoint| {
            Arc::new(Node::new(endpoint.clone(), access.clone(), counters.clone()))
        };
        let servers = Servers::new(url.servers().map(node).collect(), key_prefix);
        Ok(Self { servers, random: RandomState::new() })
    }

    /// Waits for a random part of a time that grows with the attempts, so that writers do not meet again. `false` if there
    /// is no time left.
    async fn pause(&self, attempt: u32, due: Instant) -> bool {
        let longest = PAUSE_UNIT * (1 << attempt.min(PAUSE_DOUBLINGS));
        let percent = u32::try_from(self.random.hash_one(Instant::now()) % 100).unwrap_or(0);
        let pause = longest * percent / 100;
        if Instant::now() + pause >= due {
            return false;
        }
        sleep(pause).await;
        true
    }

    /// Finds out what has become of writes that some server may have: prepares anew, and looks whether the furthest value
    /// descends from them.
    async fn resolve(&self, mut open: Vec<Undecided>, written: &mut [Written], due: Instant) {
        for attempt in 0..BALLOTS_MAX {
            // Shorter than those who read: after `ANCESTORS_MAX` other writes nothing is found out any more.
            if open.is_empty() || !self.pause(attempt / 8, due).await {
                break;
            }
            let items: Vec<_> = open.iter().map(|it| it.item.clone()).collect();
            let round = self.servers.prepare(&items, due).await;
            open = self.settle(open, round, written, due).await;
        }
        for undecided in open {
            written[undecided.place] = unknown("no majority says so in time");
        }
    }

    /// Settles those that a majority has promised. Returns the others.
    async fn settle(
        &self,
        open: Vec<Undecided>,
        round: PrepareRound,
        written: &mut [Written],
        due: Instant,
    ) -> Vec<Undecided> {
        let (mut again, mut fenced, mut proposals) = (Vec::new(), Vec::new(), Vec::new());
        for (undecided, promises) in open.into_iter().zip(round.promises) {
            if promises.progress() != Progress::Done {
                again.push(undecided);
                continue;
            }
            let resolution = resolve(undecided.ours, &promises);
            let outcome = match resolution.descent {
                Descent::Yes => Written::Done,
                Descent::No => Written::Changed,
                Descent::Unknown => {
                    written[undecided.place] = unknown("too many others came after it");
                    continue;
                }
            };
            if !resolution.needs_fence {
                written[undecided.place] = outcome;
                continue;
            }
            let value = promises.into_best().map(|(_, value)| value).unwrap_or_default();
            let (item, life) = (undecided.item.clone(), undecided.item.life_max);
            proposals.push(Proposal { item, ballot: round.ballot, bytes: value.to_bytes(), life });
            fenced.push((undecided, outcome));
        }
        if proposals.is_empty() {
            return again;
        }
        let accepted = self.servers.accept(&proposals, due).await;
        for ((undecided, outcome), accepted) in fenced.into_iter().zip(accepted) {
            if accepted == Outcome::Written {
                written[undecided.place] = outcome;
            } else {
                again.push(undecided);
            }
        }
        again
    }
}

fn unknown(why: &str) -> Written {
    let why = format!("whether the write happened is not known: {why}");
    Written::Failed(StoreError::new(StoreErrorKind::Timeout, why))
}

impl Backend for QuorumBackend {
    type Version = QuorumVersion;

    async fn read(
        &self,
        keys: &[ItemKey],
        due: Instant,
    ) -> Result<Snapshot<QuorumVersion>, StoreError> {
        let lives_max = vec![Duration::MAX; keys.len()];
        let reading = self.read_wanted(&Wanted { keys: keys.to_vec(), lives_max }, due).await?;
        match reading.failed.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(reading.snapshot),
        }
    }

    async fn read_wanted(
        &self,
        wanted: &Wanted,
        due: Instant,
    ) -> Result<Reading<QuorumVersion>, StoreError> {
        let nothing = Stored { version: None, bytes: Vec::new() };
        let (mut items, mut failed) = (vec![nothing; wanted.keys.len()], Vec::new());
        let mut now: Option<Timestamp> = None;
        let mut open: Vec<usize> = (0..wanted.keys.len()).collect();
        for attempt in 0..BALLOTS_MAX {
            let asked: Vec<RoundItem> = open
                .iter()
                .map(|place| RoundItem {
                    key: wanted.keys[*place].clone(),
                    life_max: wanted.lives_max[*place],
                })
                .collect();
            let round = self.servers.prepare(&asked, due).await;
            now = now.max(round.now());
            if let Some(notes) = round.unmarked() {
                self.servers.form(&notes, due).await;
            }
            let (mut again, mut errors) = (Vec::new(), Vec::new());
            for (index, (place, item)) in open.into_iter().zip(&asked).enumerate() {
                let promises = &round.promises[index];
                if promises.progress() == Progress::Done {
                    items[place] = stored(promises.best(), round.ballot, item.life_max);
                    continue;
                }
                let (error, is_passing) = absence(&self.servers.nodes, &round, index, item);
                if is_passing {
                    again.push(place);
                    errors.push((place, error));
                } else {
                    failed.push((place, error));
                }
            }
            open = again;
            if open.is_empty() {
                break;
            }
            if attempt + 1 == BALLOTS_MAX || !self.pause(attempt, due).await {
                failed.append(&mut errors);
                break;
            }
        }
        Ok(Reading { snapshot: Snapshot { now, items }, failed })
    }

    /// A commit has one item: see [`Backend::commit_items_max`].
    async fn write(
        &self,
        commits: &[Commit<QuorumVersion>],
        due: Instant,
    ) -> Result<Vec<Written>, StoreError> {
        let proposals = commits.iter().map(proposal).collect::<Option<Vec<_>>>();
        let proposals = proposals.ok_or_else(|| {
            StoreError::new(StoreErrorKind::BadRequest, "expected one item that was read")
        })?;
        let outcomes = self.servers.accept(&proposals, due).await;
        let is_written = |it: &Outcome| *it == Outcome::Written;
        let outcome = |it| if is_written(it) { Written::Done } else { Written::Changed };
        let mut written: Vec<Written> = outcomes.iter().map(outcome).collect();
        let undecided = proposals.into_iter().zip(outcomes).enumerate();
        let undecided = undecided.filter(|(_, (_, outcome))| *outcome == Outcome::Undecided);
        let open =
            undecided.map(|(place, (it, _))| Undecided { place, item: it.item, ours: it.ballot });
        self.resolve(open.collect(), &mut written, due).await;
        Ok(written)
    }

    /// Half of a commit over several items could be carried forward without the other half.
    fn commit_items_max(&self) -> usize {
        1
    }

    fn has_several_clocks(&self) -> bool {
        true
    }

    fn item_bytes_max(&self) -> usize {
        ITEM_BYTES_MAX
    }

    fn servers(&self) -> Vec<StoreServer> {
        self.servers.nodes.iter().map(|node| node.seen()).collect()
    }
}

fn stored(
    best: Option<&(Ballot, Value<Vec<u8>>)>,
    ballot: Ballot,
    life_max: Duration,
) -> Stored<QuorumVersion> {
    let (lineage, bytes) =
        best.map(|(_, value)| (value.lineage.clone(), value.content.clone())).unwrap_or_default();
    Stored { version: Some(QuorumVersion { ballot, lineage, life_max }), bytes }
}

fn proposal(commit: &Commit<QuorumVersion>) -> Option<Proposal> {
    let [update] = commit.updates.as_slice() else { return None };
    let QuorumVersion { ballot, lineage, life_max } = update.expected.clone()?;
    let value = Value { lineage: lineage.with(ballot), content: update.bytes.clone() };
    let item = RoundItem { key: update.key.clone(), life_max };
    let life = update.life.max(REMOVED_LIFE_MIN);
    Some(Proposal { item, ballot, bytes: value.to_bytes(), life })
}
