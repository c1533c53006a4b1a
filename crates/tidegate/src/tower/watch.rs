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

/// A request that a target observes, if there is one.
#[derive(Debug, Default)]
pub(super) struct WatchedRequest(Option<Observation>);

impl Watch {
    /// Takes a slot of the target; `None` if there is none left.
    pub(super) fn enter(&self) -> Option<WatchedRequest> {
        let Some(target) = &self.target else { return Some(WatchedRequest::default()) };
        target.enter(self.priority).map(|it| WatchedRequest(Some(it)))
    }

    /// The request was admitted and is sent to the service.
    pub(super) fn admit(&self, watched: WatchedRequest, path: &str) -> WatchedRequest {
        if !self.by_url {
            return watched;
        }
        WatchedRequest(watched.0.map(|it| it.of_url(path)))
    }
}

impl WatchedRequest {
    /// It has an answer; `ok` unless that is a 5xx or an error.
    pub(super) fn done(&mut self, ok: bool) {
        if let Some(observation) = self.0.take() {
            observation.done(ok);
        }
    }

    /// It was refused, and never reached the service.
    pub(super) fn refused(self) {
        if let Some(observation) = self.0 {
            observation.refused();
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

        pub(crate) fn done(self, _: bool) {
            match self {}
        }

        pub(crate) fn refused(self) {
            match self {}
        }
    }
}
