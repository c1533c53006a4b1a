//! What a layer tells of the requests that it lets through, if it was told to.

#[cfg(feature = "adaptive")]
use crate::adaptive::{Observation, Priority, Target};

/// Who is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    #[cfg(feature = "adaptive")]
    pub(super) target: Option<Target>,
    #[cfg(feature = "adaptive")]
    pub(super) priority: Option<Priority>,
    #[cfg(feature = "adaptive")]
    pub(super) by_url: bool,
}

/// A request that is watched, if it is.
#[derive(Debug, Default)]
pub(super) struct Watched {
    #[cfg(feature = "adaptive")]
    observation: Option<Observation>,
}

impl Watch {
    /// A place for a request; `None` if there is none left.
    #[cfg(feature = "adaptive")]
    pub(super) fn enter(&self) -> Option<Watched> {
        let Some(target) = &self.target else { return Some(Watched::default()) };
        target.enter(self.priority).map(|it| Watched { observation: Some(it) })
    }

    /// A place for a request; `None` if there is none left.
    #[cfg(not(feature = "adaptive"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "nobody is told")]
    pub(super) const fn enter(&self) -> Option<Watched> {
        Some(Watched {})
    }

    /// The request was admitted, and is on its way.
    #[cfg_attr(not(feature = "adaptive"), expect(clippy::unused_self, reason = "nobody is told"))]
    pub(super) fn admit(&self, watched: Watched, path: &str) -> Watched {
        #[cfg(feature = "adaptive")]
        if self.by_url {
            return Watched { observation: watched.observation.map(|it| it.of_url(path)) };
        }
        let _ = path;
        watched
    }
}

impl Watched {
    /// It has an answer; `ok` unless that is a 5xx or an error.
    pub(super) fn done(&mut self, ok: bool) {
        #[cfg(feature = "adaptive")]
        if let Some(observation) = self.observation.take() {
            observation.done(ok);
        }
        let _ = (self, ok);
    }

    /// It was refused, and never reached the service.
    #[cfg_attr(not(feature = "adaptive"), expect(clippy::unused_self, reason = "nobody is told"))]
    pub(super) fn refused(self) {
        #[cfg(feature = "adaptive")]
        if let Some(observation) = self.observation {
            observation.refused();
        }
    }
}
