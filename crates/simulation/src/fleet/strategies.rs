//! The three strategies that are compared.

use tidegate_core::{
    Change, Grant, GrantRequest, LeaseHolder, Message, Return, State, Step, Terms, grant,
};

use super::arrivals::NodeKey;
use super::world::{Strategy, World};

/// One call per check: nodes keep nothing, and the store decides.
pub(super) struct Strict;

impl Strategy for Strict {
    type Key = ();
    /// When the store decided.
    type Payload = u64;

    fn fresh(&self) {}

    fn check(&self, world: &mut World<'_, Self>, at: NodeKey) {
        world.call(at, 0);
    }

    fn at_store(&self, world: &mut World<'_, Self>, at: NodeKey, _: u64) {
        let (now, limit) = (world.now(), world.limit);
        if limit.take(&mut world.states[at.key], now, 1).allowed() {
            world.counters.charged += 1;
            world.answer(at, now.as_micros());
        }
    }

    /// Counted at the instant of the decision, not of the answer. A check whose answer is lost has failed.
    fn at_node(&self, world: &mut World<'_, Self>, at: NodeKey, decided_us: u64) {
        world.meters[at.key].admit(decided_us, 1);
    }
}

/// A naive cache: nodes decide on a copy of the store's state, and sync now and then.
pub(super) struct Naive {
    pub(super) every_us: u64,
}

/// A copy of the store's state, and what was admitted on it since the last sync.
#[derive(Clone, Default)]
pub(super) struct CachedState {
    state: State,
    admitted: u64,
    syncing: bool,
}

pub(super) enum NaivePayload {
    /// A timer: the node syncs now.
    Due,
    /// To the store: what the node admitted since the last sync.
    Admitted(u64),
    State(State),
}

impl Strategy for Naive {
    type Key = CachedState;
    type Payload = NaivePayload;

    fn fresh(&self) -> CachedState {
        CachedState::default()
    }

    fn check(&self, world: &mut World<'_, Self>, at: NodeKey) {
        let (now, limit, due_us) = (world.now(), world.limit, world.now_us + self.every_us);
        world.counters.in_process += 1;
        let cached = world.key(at);
        let admitted = limit.take(&mut cached.state, now, 1).allowed();
        cached.admitted += u64::from(admitted);
        let was_syncing = std::mem::replace(&mut cached.syncing, true);
        if !was_syncing {
            world.set_timer(at, due_us, NaivePayload::Due);
        }
        if admitted {
            world.meters[at.key].admit(now.as_micros(), 1);
        }
    }

    fn at_store(&self, world: &mut World<'_, Self>, at: NodeKey, payload: NaivePayload) {
        let NaivePayload::Admitted(units) = payload else { return };
        let (now, limit) = (world.now(), world.limit);
        let state = &mut world.states[at.key];
        let left = limit.peek(state, now, 0).remaining();
        // The rest was admitted as well, but a full counter stays full.
        let charged = limit.take(state, now, units.min(left));
        debug_assert!(charged.allowed());
        let state = state.clone();
        world.counters.charged += units;
        world.answer(at, NaivePayload::State(state));
    }

    fn at_node(&self, world: &mut World<'_, Self>, at: NodeKey, payload: NaivePayload) {
        match payload {
            NaivePayload::Due => {
                let cached = world.key(at);
                cached.syncing = false;
                let units = std::mem::take(&mut cached.admitted);
                world.call(at, NaivePayload::Admitted(units));
            }
            NaivePayload::State(state) => world.key(at).state = state,
            NaivePayload::Admitted(_) => {}
        }
    }
}

/// When a node gives up on an answer, unless four times the latency is longer.
const DEADLINE_US: u64 = 20_000;

/// Leases: nodes run the lessee of the core, the store its grants and returns.
pub(super) struct Leased(pub(super) Terms);

#[derive(Clone)]
pub(super) struct LeasedKey {
    lessee: LeaseHolder,
    /// How many checks wait, each with cost 1.
    waiting: u64,
    /// The number of the request they wait for.
    request: u64,
    timer_us: u64,
}

pub(super) enum LeasePayload {
    Ask { request: u64, wanted: GrantRequest },
    Return(Return),
    Granted { request: u64, decided_us: u64, grant: Grant },
    GiveUp { request: u64 },
    Wake,
}

impl Leased {
    /// Sends the messages of the lessee, and sets a timer for its next one.
    fn settle(world: &mut World<'_, Self>, at: NodeKey) {
        let own_us = world.node_now_us(at.node);
        while let Some(message) = world.key(at).lessee.poll(own_us) {
            let payload = match message {
                Message::Return(back) => LeasePayload::Return(back),
                Message::Ask(wanted) => {
                    let key = world.key(at);
                    key.request += 1;
                    let request = key.request;
                    let wait_us = DEADLINE_US.max(4 * world.settings.latency_us);
                    world.set_timer(at, world.now_us + wait_us, LeasePayload::GiveUp { request });
                    LeasePayload::Ask { request, wanted }
                }
            };
            world.call(at, payload);
        }
        let now_us = world.now_us;
        let key = world.key(at);
        let Some(wakes_us) = key.lessee.wakes_us() else { return };
        // A little later, because the node's clock may be slow.
        let wait_us = wakes_us.saturating_sub(own_us);
        let timer_us = now_us + wait_us + wait_us / 1024 + 1;
        if key.timer_us <= now_us || timer_us < key.timer_us {
            key.timer_us = timer_us;
            world.set_timer(at, timer_us, LeasePayload::Wake);
        }
    }

    /// Decides all waiting checks; some have to go on waiting.
    fn resume(world: &mut World<'_, Self>, at: NodeKey, decided_us: u64) {
        let (now_us, own_us) = (world.now_us, world.node_now_us(at.node));
        for _ in 0..std::mem::take(&mut world.key(at).waiting) {
            match world.key(at).lessee.resume(own_us, 1) {
                Step::Admit { late, .. } => {
                    world.meters[at.key].admit(if late { decided_us } else { now_us }, 1);
                }
                Step::Refuse { .. } | Step::Unavailable => {}
                Step::Wait => world.key(at).waiting += 1,
            }
        }
    }
}

impl Strategy for Leased {
    type Key = LeasedKey;
    type Payload = LeasePayload;

    fn fresh(&self) -> LeasedKey {
        LeasedKey { lessee: LeaseHolder::new(self.0), waiting: 0, request: 0, timer_us: 0 }
    }

    fn check(&self, world: &mut World<'_, Self>, at: NodeKey) {
        let (now_us, own_us) = (world.now_us, world.node_now_us(at.node));
        match world.key(at).lessee.check(own_us, 1) {
            Step::Admit { .. } => {
                world.counters.in_process += 1;
                world.meters[at.key].admit(now_us, 1);
            }
            Step::Refuse { .. } => world.counters.in_process += 1,
            Step::Wait => world.key(at).waiting += 1,
            // Failed, like a check whose request is lost.
            Step::Unavailable => {}
        }
        Self::settle(world, at);
    }

    fn at_store(&self, world: &mut World<'_, Self>, at: NodeKey, payload: LeasePayload) {
        let (now, limit) = (world.now(), world.limit);
        let state = &mut world.states[at.key];
        match payload {
            LeasePayload::Ask { request, wanted } => {
                let mut changes = [Change::KEEP];
                let limits = std::iter::once((limit, &*state));
                let Some(grant) = grant(limits, &mut changes, now, wanted) else { return };
                state.apply(changes[0]);
                world.counters.charged += grant.units;
                let decided_us = now.as_micros();
                world.answer(at, LeasePayload::Granted { request, decided_us, grant });
            }
            LeasePayload::Return(back) => {
                limit.give_back(state, now, back);
                world.counters.returned += back.units;
            }
            _ => {}
        }
    }

    fn at_node(&self, world: &mut World<'_, Self>, at: NodeKey, payload: LeasePayload) {
        let (own_us, random) = (world.node_now_us(at.node), world.backoff_bits());
        let key = world.key(at);
        match payload {
            LeasePayload::Granted { request, decided_us, grant } if request == key.request => {
                key.request += 1;
                key.lessee.on_reply(own_us, &grant);
                Self::resume(world, at, decided_us);
            }
            LeasePayload::GiveUp { request } if request == key.request => {
                key.request += 1;
                key.lessee.on_failure(own_us, random);
                // The store may have charged the checks it was sent for, and is left alone for a while: all fail.
                key.waiting = 0;
            }
            _ => {}
        }
        Self::settle(world, at);
    }
}
