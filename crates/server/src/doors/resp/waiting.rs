//! Answers that come later, each in its place. All checks of a burst are under way before the first is waited for, so
//! that a store over a network takes them in one round trip.

use tidegate::{Answer, CheckError, Engine, Later, Settled, StoreError};

use super::out::Out;
use super::{check, throttle};

/// An answer that is under way.
pub(super) enum Waiting<'e> {
    Throttle(Later<'e, Settled, StoreError>),
    Check(Later<'e, Answer<'e>, CheckError>),
}

/// Answers under way, each with the place in the output where it belongs.
pub(super) type Queue<'e> = Vec<(usize, Waiting<'e>)>;

/// Puts the answers where they belong: what was written meanwhile moves behind them.
pub(super) async fn fill(out: &mut Out, queue: Queue<'_>, engine: &Engine) {
    let mut whole = Out(super::spare::take(out.len()));
    let mut from = 0;
    for (at, waiting) in queue {
        whole.0.extend_from_slice(out.0.get(from..at).unwrap_or_default());
        from = at;
        match waiting {
            Waiting::Throttle(later) => throttle::write(&mut whole, &later.await),
            Waiting::Check(later) => check::write(&mut whole, engine, &later.await),
        }
    }
    whole.0.extend_from_slice(out.0.get(from..).unwrap_or_default());
    super::spare::give(std::mem::replace(&mut out.0, whole.0));
}
