//! One call per check: the store decides each.

use super::world::{Node, Place, World};

/// Nodes keep nothing.
pub(super) struct Strict;

impl Node for Strict {
    type Key = ();
    /// When the store decided.
    type Note = u64;

    fn fresh(&self) {}

    fn check(&self, world: &mut World<'_, Self>, at: Place) {
        world.call(at, 0);
    }

    fn at_store(&self, world: &mut World<'_, Self>, at: Place, _: u64) {
        let (now, limit) = (world.now(), world.limit);
        if limit.take(&mut world.states[at.key], now, 1).allowed() {
            world.tally.charged += 1;
            world.answer(at, now.as_micros());
        }
    }

    /// Counted when it was decided, not when the answer arrives. If that is lost, the check has failed.
    fn at_node(&self, world: &mut World<'_, Self>, at: Place, decided_us: u64) {
        world.meters[at.key].admit(decided_us, 1);
    }
}
