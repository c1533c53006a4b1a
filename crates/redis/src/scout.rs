//! Asks a cluster's nodes who serves what, over a connection of its own: any that answers will do.

use std::sync::Arc;
use std::time::Duration;

use redis::cmd;
use tokio::time::timeout;

use super::link::Link;
use super::node::Shared;
use super::place::Place;
use super::slots::{self, Range};
use tidegate::{StoreError, StoreErrorKind};

/// A node that takes longer hangs: the next one is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) type Seen = Vec<Range>;

pub(super) struct Scout {
    seeds: Vec<Place>,
    /// To whoever answered last.
    link: Option<(Place, Link)>,
}

impl Scout {
    pub(super) const fn new(seeds: Vec<Place>) -> Self {
        Self { seeds, link: None }
    }

    /// Asks one after another, whoever answered last first. Comes back with the answer.
    pub(super) async fn look(
        mut self,
        shared: Arc<Shared>,
        known: Vec<Place>,
    ) -> (Self, Result<Seen, StoreError>) {
        let last = self.link.as_ref().map(|(place, _)| place.clone());
        let mut asked: Vec<Place> = Vec::new();
        let mut error =
            StoreError::new(StoreErrorKind::Unreachable, "no node of the cluster is known");
        for place in last.into_iter().chain(known).chain(self.seeds.clone()) {
            if asked.contains(&place) {
                continue;
            }
            match timeout(ANSWER_TIMEOUT, self.ask(&place, &shared)).await {
                Ok(Ok(seen)) => return (self, Ok(seen)),
                Ok(Err(why)) => error = why,
                Err(_) => {
                    let why = format!("{place}: no answer within {ANSWER_TIMEOUT:?}");
                    error = StoreError::new(StoreErrorKind::Unreachable, why);
                }
            }
            self.link = None;
            asked.push(place);
        }
        (self, Err(error))
    }

    async fn ask(&mut self, place: &Place, shared: &Shared) -> Result<Seen, StoreError> {
        let mut link = match self.link.take() {
            Some((known, link)) if known == *place => link,
            _ => Link::enter(place, &shared.access).await?,
        };
        let slots = link.start(cmd("CLUSTER").arg("SLOTS").take());
        let seen = slots::read(link.value_of(slots).await?, place)?;
        self.link = Some((place.clone(), link));
        Ok(seen)
    }
}
