//! The target to which a layer reports the requests that it admits, if it has one.

#[cfg(not(feature = "adaptive"))]
use self::absent::{Observation, Priority, Target};
#[cfg(feature = "adaptive")]
use crate::adaptive::{Observation, Priority, Target};

#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub(super) target: Option<Target>,
    pub(super) priority: Option<Priority>,
    pub(super) by_url: bool,
}

/// A slot of the target for a request that is not admitted yet. Dropped, it was never taken.
#[derive(Debug, Default)]
pub(super) struct Slot(Option<Observation>);

/// A request that a target observes, if there is one.
#[derive(Debug, Default)]
pub(super) struct WatchedRequest(Option<Observation>);

impl Watch {
    /// Takes a slot of the target; `None` if there is none left.
    pub(super) fn enter(&self) -> Option<Slot> {
        let Some(target) = &self.target else { return Some(Slot::default()) };
        target.enter(self.priority).map(|it| Slot(Some(it)))
    }

    /// The request was admitted and is sent to the service.
    pub(super) fn admit(&self, mut slot: Slot, path: &str) -> WatchedRequest {
        let observation = slot.0.take();
        WatchedRequest(if self.by_url {
            observation.map(|it| it.of_url(path))
        } else {
            observation
        })
    }
}

impl Slot {
    /// The request has waited for its decision.
    pub(super) fn restart(&mut self) {
        if let Some(observation) = &mut self.0 {
            observation.restart();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(observation) = self.0.take() {
            observation.refused();
        }
    }
}

impl WatchedRequest {
    /// It has an answer; `ok` unless that is a 5xx or an error.
    pub(super) fn done(&mut self, ok: bool) {
        if let Some(observation) = self.0.take() {
            observation.done(ok);
        }
    }
}

/// Types without a value: without adaptive limits there is no target.
#[cfg(not(feature = "adaptive"))]
mod absent {
    #[derive(Clone, Debug)]
    pub(crate) enum Target {}

    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Priority {}

    #[derive(Debug)]
    pub(crate) enum Observation {}

    impl Target {
        pub(crate) const fn enter(&self, _: Option<Priority>) -> Option<Observation> {
            match *self {}
        }
    }

    impl Observation {
        pub(crate) fn of_url(self, _: &str) -> Self {
            match self {}
        }

        pub(crate) const fn restart(&mut self) {
            match *self {}
        }

        pub(crate) fn done(self, _: bool) {
            match self {}
        }

        pub(crate) fn refused(self) {
            match self {}
        }
    }
}
