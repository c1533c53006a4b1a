//! Leases: the nodes run the lessee of the core, the store its grants and returns.

use tidegate_core::{
    Change, Grant, GrantRequest, LeaseHolder, Message, Return, Step, Terms, grant,
};

use super::world::{Node, Place, World};

/// When a node gives up on an answer, unless four times the way to the store is longer.
const DEADLINE_US: u64 = 20_000;

pub(super) struct Leased {
    terms: Terms,
}

#[derive(Clone)]
pub(super) struct Key {
    lessee: LeaseHolder,
    /// How many checks wait, each of cost 1.
    waiting: u64,
    /// How many of them were there when the request left.
    asked_for: u64,
    /// The number of the request they wait for.
    request: u64,
    alarm_us: u64,
}

pub(super) enum Note {
    Ask { request: u64, wanted: GrantRequest },
    Return(Return),
    Granted { request: u64, decided_us: u64, grant: Grant },
    GiveUp { request: u64 },
    Wake,
}

impl Leased {
    pub(super) fn new(terms: Terms) -> Self {
        Self { terms }
    }

    /// Sends what the lessee has to say, and sets the alarm for what it will have to say by itself.
    fn settle(world: &mut World<'_, Self>, at: Place) {
        let own_us = world.node_now_us(at.node);
        while let Some(message) = world.key(at).lessee.poll(own_us) {
            let note = match message {
                Message::Return(back) => Note::Return(back),
                Message::Ask(wanted) => {
                    let key = world.key(at);
                    (key.request, key.asked_for) = (key.request + 1, key.waiting);
                    let request = key.request;
                    let wait_us = DEADLINE_US.max(4 * world.setting.latency_us);
                    world.alarm(at, world.now_us + wait_us, Note::GiveUp { request });
                    Note::Ask { request, wanted }
                }
            };
            world.call(at, note);
        }
        let now_us = world.now_us;
        let key = world.key(at);
        let Some(wakes_us) = key.lessee.wakes_us() else { return };
        // Its clock may be slow: a little later, so that it is not too early.
        let wait_us = wakes_us.saturating_sub(own_us);
        let alarm_us = now_us + wait_us + wait_us / 1024 + 1;
        if key.alarm_us <= now_us || alarm_us < key.alarm_us {
            key.alarm_us = alarm_us;
            world.alarm(at, alarm_us, Note::Wake);
        }
    }

    /// Decides all that wait; those that have to wait on stay.
    fn resume(world: &mut World<'_, Self>, at: Place, decided_us: u64) {
        let (now_us, own_us) = (world.now_us, world.node_now_us(at.node));
        for _ in 0..std::mem::take(&mut world.key(at).waiting) {
            match world.key(at).lessee.resume(own_us, 1) {
                Step::Admit { late, .. } => {
                    world.meters[at.key].admit(if late { decided_us } else { now_us }, 1);
                }
                Step::Refuse { .. } => {}
                Step::Wait => world.key(at).waiting += 1,
            }
        }
    }
}

impl Node for Leased {
    type Key = Key;
    type Note = Note;

    fn fresh(&self) -> Key {
        Key {
            lessee: LeaseHolder::new(self.terms),
            waiting: 0,
            asked_for: 0,
            request: 0,
            alarm_us: 0,
        }
    }

    fn check(&self, world: &mut World<'_, Self>, at: Place) {
        let (now_us, own_us) = (world.now_us, world.node_now_us(at.node));
        match world.key(at).lessee.check(own_us, 1) {
            Step::Admit { .. } => {
                world.tally.in_process += 1;
                world.meters[at.key].admit(now_us, 1);
            }
            Step::Refuse { .. } => world.tally.in_process += 1,
            Step::Wait => world.key(at).waiting += 1,
        }
        Self::settle(world, at);
    }

    fn at_store(&self, world: &mut World<'_, Self>, at: Place, note: Note) {
        let (now, limit) = (world.now(), world.limit);
        let state = &mut world.states[at.key];
        match note {
            Note::Ask { request, wanted } => {
                let mut changes = [Change::KEEP];
                let limits = std::iter::once((limit, &*state));
                let Some(grant) = grant(limits, &mut changes, now, wanted) else { return };
                state.apply(changes[0]);
                world.tally.charged += grant.units;
                let decided_us = now.as_micros();
                world.answer(at, Note::Granted { request, decided_us, grant });
            }
            Note::Return(back) => {
                limit.give_back(state, now, back);
                world.tally.returned += back.units;
            }
            _ => {}
        }
    }

    fn at_node(&self, world: &mut World<'_, Self>, at: Place, note: Note) {
        let own_us = world.node_now_us(at.node);
        let key = world.key(at);
        match note {
            Note::Granted { request, decided_us, grant } if request == key.request => {
                key.request += 1;
                key.lessee.on_reply(own_us, &grant);
                Self::resume(world, at, decided_us);
            }
            Note::GiveUp { request } if request == key.request => {
                key.request += 1;
                key.lessee.on_failure();
                // Those it was sent for get an error, since the store may have charged for them; those that
                // came later are decided anew.
                key.waiting -= key.asked_for;
                Self::resume(world, at, 0);
            }
            _ => {}
        }
        Self::settle(world, at);
    }
}
