//! An item: the states of all limits of one policy on one identifier.
//!
//! Bytes: a format number, the latest time that a decision was made at, then for each state its name, the letter of its
//! kind and its own bytes, each with its length before it. A limit that is added, removed or given another algorithm
//! leaves the others as they are.

use std::time::Duration;

use tidegate::store_kit::{LIFE_MARGIN, PartReader, push_part};
use tidegate_core::{State, Timestamp};

const FORMAT: u8 = 1;

/// More than the bytes of an item with one small state.
const BYTES_EXPECTED: usize = 64;

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Item {
    /// The latest time that a decision was made at.
    pub(crate) seen: Timestamp,
    slots: Vec<Slot>,
}

#[derive(Clone, PartialEq, Debug)]
struct Slot {
    name: SlotName,
    state: State,
}

impl Slot {
    /// Until when the state is kept; not at all if it says nothing.
    fn until(&self) -> Timestamp {
        match self.state {
            State::Empty => Timestamp::EPOCH,
            _ => self.state.idle_from() + LIFE_MARGIN,
        }
    }
}

/// Which state of an item: the name of its limit, and the letter of the state's kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SlotName {
    pub(crate) limit: Box<str>,
    pub(crate) letter: char,
}

impl Item {
    /// `None` if these are no bytes of an item.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let mut reader = PartReader::new(bytes);
        let (FORMAT, seen) = (reader.byte()?, reader.word()?) else { return None };
        let mut slots = Vec::with_capacity(1);
        while !reader.is_empty() {
            let limit = reader.text()?.into();
            let letter = char::from(reader.byte()?);
            let state = State::from_bytes(reader.part()?)?;
            slots.push(Slot { name: SlotName { limit, letter }, state });
        }
        Some(Self { seen: Timestamp::from_micros(seen), slots })
    }

    /// The bytes of what still matters `now`, and for how long it does. Empty if nothing does.
    pub(crate) fn to_bytes(&self, now: Timestamp) -> (Vec<u8>, Duration) {
        let kept = || self.slots.iter().filter(|slot| slot.until() > now);
        let Some(until) = kept().map(Slot::until).max() else {
            return (Vec::new(), Duration::ZERO);
        };
        let mut bytes = Vec::with_capacity(BYTES_EXPECTED);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.seen.as_micros().to_le_bytes());
        let mut state = Vec::with_capacity(BYTES_EXPECTED);
        for slot in kept() {
            push_part(&mut bytes, slot.name.limit.as_bytes());
            bytes.push(u8::try_from(slot.name.letter).unwrap_or(b'?'));
            state.clear();
            slot.state.write_bytes(&mut state);
            push_part(&mut bytes, &state);
        }
        (bytes, until.since(now))
    }

    /// Takes a state out.
    pub(crate) fn take(&mut self, name: &SlotName) -> State {
        let slot = self.slots.iter_mut().find(|slot| slot.name == *name);
        slot.map_or(State::Empty, |slot| std::mem::replace(&mut slot.state, State::Empty))
    }

    /// Puts a state where it was taken from.
    pub(crate) fn put(&mut self, name: &SlotName, state: State) {
        match self.slots.iter_mut().find(|slot| slot.name == *name) {
            Some(slot) => slot.state = state,
            None if state == State::Empty => {}
            None => self.slots.push(Slot { name: name.clone(), state }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

    fn name(limit: &str) -> SlotName {
        SlotName { limit: limit.into(), letter: 'a' }
    }

    fn spent(text: &str) -> State {
        let (limit, mut state): (tidegate_core::Limit, _) = (text.parse().unwrap(), State::Empty);
        assert!(limit.take(&mut state, NOW, 1).allowed());
        state
    }

    #[test]
    fn what_was_written_is_read_the_same() {
        let mut item = Item { seen: NOW, ..Item::default() };
        for (limit, text) in
            [("", "5/h"), ("day", "fixed-window 9/day"), ("log", "sliding-log 3/h")]
        {
            item.put(&name(limit), spent(text));
        }
        let (bytes, life) = item.to_bytes(NOW);
        assert_eq!(Item::from_bytes(&bytes), Some(item));
        assert!(life > Duration::from_mins(12), "{life:?}");
    }

    #[test]
    fn states_that_say_nothing_any_more_are_dropped() {
        let mut item = Item::default();
        item.put(&name("a"), spent("5/h"));
        let later = NOW + Duration::from_hours(2);
        assert_eq!(item.to_bytes(later), (vec![], Duration::ZERO));
        assert_eq!(Item::from_bytes(&[]), Some(Item::default()));
    }

    #[test]
    fn bytes_that_nothing_wrote_are_not_read() {
        let mut item = Item::default();
        item.put(&name("a"), spent("5/h"));
        let (bytes, _) = item.to_bytes(NOW);
        for cut in 1..bytes.len() {
            let read = Item::from_bytes(&bytes[..cut]);
            assert!(read.is_none() || cut == 9, "{cut} bytes: {read:?}");
        }
        let mut other_format = bytes;
        other_format[0] = 2;
        assert_eq!(Item::from_bytes(&other_format), None);
    }
}
