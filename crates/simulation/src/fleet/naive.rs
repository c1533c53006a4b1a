//! The naive cache: nodes decide on a copy of the store's state, and sync now and then.

use std::time::Duration;

use tidegate_core::{Limit, State};

use super::world::{Node, Place, World};

pub(super) struct Naive {
    limit: Limit,
    every_us: u64,
}

/// A copy of the store's state, and what was admitted on it since the last sync.
#[derive(Clone, Default)]
pub(super) struct Copy {
    state: State,
    admitted: u64,
    syncing: bool,
}

pub(super) enum Note {
    /// Time to sync, from the node to itself.
    Due,
    /// What was admitted, to the store.
    Admitted(u64),
    State(State),
}

impl Naive {
    pub(super) fn new(limit: &Limit, every: Duration) -> Self {
        let every_us = u64::try_from(every.as_micros()).unwrap_or(u64::MAX);
        Self { limit: limit.clone(), every_us }
    }
}

impl Node for Naive {
    type Key = Copy;
    type Note = Note;

    fn fresh(&self) -> Copy {
        Copy::default()
    }

    fn check(&self, world: &mut World<'_, Self>, at: Place) {
        let (now, due_us) = (world.now(), world.now_us + self.every_us);
        world.tally.in_process += 1;
        let copy = world.key(at);
        let admitted = self.limit.take(&mut copy.state, now, 1).allowed();
        copy.admitted += u64::from(admitted);
        let sleeping = !std::mem::replace(&mut copy.syncing, true);
        if sleeping {
            world.alarm(at, due_us, Note::Due);
        }
        if admitted {
            world.meters[at.key].admit(now.as_micros(), 1);
        }
    }

    fn at_store(&self, world: &mut World<'_, Self>, at: Place, note: Note) {
        let Note::Admitted(units) = note else { return };
        let now = world.now();
        let state = &mut world.states[at.key];
        let left = self.limit.peek(state, now, 0).remaining();
        // What does not fit was admitted all the same; a counter cannot say more than full.
        let charged = self.limit.take(state, now, units.min(left));
        debug_assert!(charged.allowed());
        let state = state.clone();
        world.tally.charged += units;
        world.answer(at, Note::State(state));
    }

    fn at_node(&self, world: &mut World<'_, Self>, at: Place, note: Note) {
        match note {
            Note::Due => {
                let copy = world.key(at);
                copy.syncing = false;
                let units = std::mem::take(&mut copy.admitted);
                world.call(at, Note::Admitted(units));
            }
            Note::State(state) => world.key(at).state = state,
            Note::Admitted(_) => {}
        }
    }
}
