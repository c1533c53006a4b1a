//! Answers that come later, each in its place. All checks of a burst are under way before the first is waited for, so
//! that a store over a network takes them in one round trip.

use tidegate::{
    Answer, Check, CheckError, Clock, Engine, Key, Later, StoreError, StoreReply, SystemClock,
};

use super::out::Out;
use super::{check, throttle};
use crate::gate::Gate;

/// An answer that is under way.
pub(super) enum Waiting<'e> {
    /// And whether it spends.
    Throttle(Later<'e, StoreReply, StoreError>, bool),
    /// And what is to be told of it, if it spends.
    Check(Later<'e, Answer<'e>, CheckError>, Option<ToTell>),
}

/// A check that spends, until it is answered.
pub(super) struct ToTell {
    policy: Box<str>,
    key: Box<[u8]>,
    cost: u64,
    since_us: u64,
}

impl ToTell {
    pub(super) fn of(policy: &str, key: &[u8], cost: u64) -> Self {
        let since_us = SystemClock.steady_us();
        Self { policy: policy.into(), key: key.into(), cost, since_us }
    }

    fn tell(&self, gate: &Gate, answer: &Result<Answer<'_>, CheckError>) {
        let Self { policy, key, cost, since_us } = self;
        gate.tell(&Check { policy, key: Key::One(key), cost: *cost }, answer);
        gate.metrics().policy_took(policy, *since_us);
    }
}

/// Answers under way, each with the place in the output where it belongs.
pub(super) type Queue<'e> = Vec<(usize, Waiting<'e>)>;

/// Puts the answers where they belong: what was written meanwhile moves behind them.
pub(super) async fn fill(out: &mut Out, queue: Queue<'_>, engine: &Engine, gate: &Gate) {
    let mut whole = Out(super::spare::take(out.len()));
    let mut from = 0;
    for (at, waiting) in queue {
        whole.0.extend_from_slice(out.0.get(from..at).unwrap_or_default());
        from = at;
        match waiting {
            Waiting::Throttle(later, spends) => {
                let settled = later.await;
                if spends {
                    throttle::tell(gate, &settled);
                }
                throttle::write(&mut whole, &settled);
            }
            Waiting::Check(later, to_tell) => {
                let answer = later.await;
                if let Some(to_tell) = to_tell {
                    to_tell.tell(gate, &answer);
                }
                check::write(&mut whole, engine, &answer);
            }
        }
    }
    whole.0.extend_from_slice(out.0.get(from..).unwrap_or_default());
    super::spare::give(std::mem::replace(&mut out.0, whole.0));
}
