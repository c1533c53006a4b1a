//! What all doors share: the service that answers, and what is known besides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::Guard;

use crate::dashboard::Feed;
use crate::metrics::{DoorName, Metrics};
use crate::observed::Observed;
use crate::service::{Call, CheckService, Draft, InForce};
use crate::urls::ByUrl;

/// The state of the server. It outlives reloads.
#[derive(Debug)]
pub(crate) struct AppState {
    service: CheckService,
    observed: Arc<Observed>,
    urls: ByUrl,
    feed: Feed,
    is_draining: AtomicBool,
}

impl AppState {
    /// With a first configuration.
    pub(crate) fn new(draft: Draft) -> Arc<Self> {
        let observed = draft.observed().clone();
        let (service, urls) = (CheckService::new(draft), ByUrl::default());
        let (feed, is_draining) = (Feed::default(), AtomicBool::new(false));
        Arc::new(Self { service, observed, urls, feed, is_draining })
    }

    pub(crate) const fn service(&self) -> &CheckService {
        &self.service
    }

    /// What is in force. Cheap; not to be held across a wait longer than one request.
    pub(crate) fn in_force(&self) -> Guard<Arc<InForce>> {
        self.service.in_force()
    }

    /// A request that was read at a door.
    pub(crate) fn call<'s>(&'s self, in_force: &'s InForce, door: DoorName) -> Call<'s> {
        self.service.call(in_force, door)
    }

    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        self.service.metrics()
    }

    /// What is known of the services behind.
    pub(crate) const fn observed(&self) -> &Arc<Observed> {
        &self.observed
    }

    /// What is known of every URL that requests were passed on for.
    pub(crate) const fn urls(&self) -> &ByUrl {
        &self.urls
    }

    /// Who watches the dashboard.
    pub(crate) const fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Says from now on that the server is about to end. It serves on, except those who only watch.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.feed.close();
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }
}
