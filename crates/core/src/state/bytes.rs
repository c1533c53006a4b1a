//! The byte form of a state: a tag, then little-endian words. For snapshots and swap stores.

use super::stamps::Stamps;
use super::{Arrival, Log, Permit, Permits, Run, Slots, State, Window};
use crate::time::EXACT_MAX;

const EMPTY: u8 = 0;
const ARRIVAL: u8 = 1;
const WINDOW: u8 = 2;
const SLOTS: u8 = 3;
const LOG: u8 = 4;
const PERMITS: u8 = 5;

/// Far above any permit's id, which starts at the microsecond it is granted; and far from overflow.
const MAX_ID: u64 = 1 << 62;

impl State {
    /// Appends the byte form.
    ///
    /// ```
    /// use tidegate_core::{Limit, State, Timestamp};
    ///
    /// let limit: Limit = "sliding-log 5/h".parse()?;
    /// let mut state = State::Empty;
    /// let _ = limit.take(&mut state, Timestamp::from_micros(1_700_000_000_000_000), 2);
    /// let mut bytes = Vec::new();
    /// state.write_bytes(&mut bytes);
    /// assert_eq!(State::from_bytes(&bytes), Some(state));
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn write_bytes(&self, out: &mut Vec<u8>) {
        match self {
            Self::Empty => out.push(EMPTY),
            Self::Arrival(a) => words(out, ARRIVAL, &[a.ticks, a.frac, a.scale, a.tick_us]),
            Self::Window(window) => words(out, WINDOW, &[window.end, window.count]),
            Self::Slots(slots) => {
                words(out, SLOTS, &[slots.width_us, slots.newest]);
                slots.ring().for_each(|count| append(out, &[count]));
            }
            Self::Log(log) => {
                words(out, LOG, &[log.period_us]);
                log.runs().for_each(|run| append(out, &[run.at_us, run.count]));
            }
            Self::Permits(permits) => {
                words(out, PERMITS, &[permits.next_id]);
                for p in &permits.held {
                    append(out, &[p.id, p.cost, p.expires_us, p.granted_us]);
                }
            }
        }
    }

    /// Reads the byte form. `None` if it is not one, or says what no decision can have written: bytes
    /// come from files and networks, and the arithmetic of a decision relies on these bounds.
    ///
    /// ```
    /// # use tidegate_core::State;
    /// let mut bytes = Vec::new();
    /// State::Empty.write_bytes(&mut bytes);
    /// assert_eq!(State::from_bytes(&bytes), Some(State::Empty));
    /// bytes.push(0); // one byte too many
    /// assert_eq!(State::from_bytes(&bytes), None);
    /// ```
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        let (chunks, rest) = rest.as_chunks::<8>();
        if !rest.is_empty() {
            return None;
        }
        let words: Vec<u64> = chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
        match (*tag, words.as_slice()) {
            (EMPTY, []) => Some(Self::Empty),
            (ARRIVAL, &[ticks, frac, scale, tick_us @ (1 | 1000)]) if frac < scale => {
                Some(Self::Arrival(Arrival { ticks, frac, scale, tick_us }))
            }
            (WINDOW, &[end, count]) => Some(Self::Window(Window { end, count })),
            (SLOTS, &[width_us, newest, ref counts @ ..])
                if width_us > 0
                    && newest <= EXACT_MAX
                    && (2..=1001).contains(&counts.len())
                    && sum(counts.iter().copied()).is_some() =>
            {
                Some(Self::Slots(Slots::from_ring(width_us, newest, counts)))
            }
            (LOG, [period_us, pairs @ ..]) => log(*period_us, pairs).map(Self::Log),
            (PERMITS, [next_id, held @ ..]) => permits(*next_id, held).map(Self::Permits),
            _ => None,
        }
    }
}

fn log(period_us: u64, words: &[u64]) -> Option<Log> {
    let (pairs, rest) = words.as_chunks::<2>();
    let runs = pairs.iter().map(|&[at_us, count]| Run { at_us, count });
    let total = sum(runs.clone().map(|run| run.count));
    let fits = total.is_some_and(|total| total <= Stamps::UNITS_MAX);
    let ascending = pairs.is_sorted_by(|a, b| a[0] < b[0]);
    let sane = runs.clone().all(|run| run.count > 0 && run.at_us <= EXACT_MAX);
    (rest.is_empty() && fits && ascending && sane)
        .then(|| Log { period_us, stamps: Stamps::from_runs(runs) })
}

fn permits(next_id: u64, words: &[u64]) -> Option<Permits> {
    let (quads, rest) = words.as_chunks::<4>();
    let held: Vec<Permit> = quads
        .iter()
        .map(|&[id, cost, expires_us, granted_us]| Permit { id, cost, expires_us, granted_us })
        .collect();
    let total = sum(held.iter().map(|permit| permit.cost)).filter(|total| *total <= EXACT_MAX);
    let ascending = held.is_sorted_by_key(|permit| permit.expires_us);
    let named = next_id <= MAX_ID && held.iter().all(|permit| permit.id < next_id);
    (rest.is_empty() && total.is_some() && ascending && named).then_some(Permits { held, next_id })
}

fn sum(mut counts: impl Iterator<Item = u64>) -> Option<u64> {
    counts.try_fold(0_u64, u64::checked_add)
}

fn words(out: &mut Vec<u8>, tag: u8, words: &[u64]) {
    out.push(tag);
    append(out, words);
}

fn append(out: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
}
