//! Whoever sits at the desk of a cluster: keeps the map, and finds another way for what went wrong.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::cluster::Map;
use super::desk::{Bundle, Why};
use super::node::{Handle, Shared};
use super::outlook::Outlook;
use super::place::Place;
use super::queue::WAITING_MAX;
use super::scout::{Scout, Seen};
use super::ticket::Ticket;
use super::timer::Timer;
use tidegate::{StoreError, StoreErrorKind};

/// How often the map is asked for when all is well.
const REFRESH_EVERY: Duration = Duration::from_secs(10);

/// Long enough for a key to be moved, short enough to be asked again in time.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(3);

pub(super) struct Clerk {
    map: Arc<Map>,
    shared: Arc<Shared>,
    /// For the next map.
    waiting: Vec<Ticket>,
    /// For their time to try again.
    later: Vec<(Instant, Ticket)>,
    /// Why the last map did not come.
    last_error: Option<StoreError>,
    timer: Timer,
    outlook: Outlook,
}

impl Clerk {
    pub(super) fn new(map: Arc<Map>, shared: Arc<Shared>) -> Self {
        let (timer, outlook) = (Timer::default(), Outlook::new(REFRESH_EVERY));
        let (waiting, later) = (Vec::new(), Vec::new());
        Self { map, shared, waiting, later, last_error: None, timer, outlook }
    }

    pub(super) async fn run(mut self, mut bundles: mpsc::Receiver<Bundle>, scout: Scout) {
        let mut trouble = self.shared.trouble.subscribe();
        // Here, or out to have a look.
        let (mut scout, mut view) = (Some(scout), None);
        while let Some(map) = self.map.get() {
            if let Some(scout) = scout.take_if(|_| Instant::now() >= self.outlook.next()) {
                self.shared.counters.refreshes.add(1);
                let known = map.places().cloned().collect();
                view = Some(Box::pin(scout.look(self.shared.clone(), known)));
            }
            drop(map);
            self.timer.disarm();
            let due = self.next_due();
            self.timer.arm(|| due);
            let looking = async {
                match &mut view {
                    Some(view) => view.as_mut().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.map.given_up() => return,
                (back, seen) = looking => {
                    scout = Some(back);
                    view = None;
                    self.learn(seen);
                }
                () = sleep_until(self.outlook.next()), if scout.is_some() => {}
                Ok(()) = trouble.changed() => self.outlook.trouble(Instant::now()),
                Some(bundle) = bundles.recv() => {
                    if bundle.why != Why::TryAgain {
                        self.outlook.trouble(Instant::now());
                    }
                    self.sort(bundle);
                }
                () = self.timer.rings() => self.time_passes(),
            }
        }
    }

    /// Takes a map.
    fn learn(&mut self, seen: Result<Seen, StoreError>) {
        let current = self.map.get().unwrap_or_default();
        let map = seen.and_then(|seen| current.of(&seen, &self.shared));
        let is_news = map.as_ref().is_ok_and(|map| !map.is_same(&current));
        let (is_well, error) = match map {
            Ok(map) => {
                let is_well = !map.has_gaps();
                self.map.set(map);
                (is_well, StoreError::new(StoreErrorKind::ClusterDown, "no node has the slot"))
            }
            Err(error) => (false, error),
        };
        self.last_error = (!is_well).then(|| error.clone());
        for mut ticket in std::mem::take(&mut self.waiting) {
            match self.node_of(&ticket) {
                Some(_) => self.send(ticket),
                None => ticket.answer(Err(error.clone())),
            }
        }
        self.outlook.looked(Instant::now(), is_well, is_news);
    }

    /// Finds another way for questions that have not run.
    fn sort(&mut self, bundle: Bundle) {
        let Bundle { tickets, why } = bundle;
        for mut ticket in tickets.into_iter().filter(Ticket::is_open) {
            // Whatever comes of it now, the node that sent it away has answered.
            ticket.watch = None;
            if why != Why::NoNode {
                if ticket.tried {
                    ticket.fail(StoreErrorKind::Moving, "the slot is being moved");
                    continue;
                }
                self.shared.counters.retries.add(1);
                ticket.tried = true;
            }
            match &why {
                Why::NoNode => self.send(ticket),
                Why::Moved(place) => {
                    self.move_slot(ticket.slot, place);
                    self.send(ticket);
                }
                Why::StoreRequest(place) => {
                    (ticket.asking, ticket.alone) = (true, true);
                    self.send_to(ticket, place);
                }
                Why::TryAgain if self.later.len() >= WAITING_MAX => {
                    ticket.fail(StoreErrorKind::Moving, "the slot is being moved");
                }
                Why::TryAgain => {
                    ticket.alone = true;
                    self.later.push((Instant::now() + TRY_AGAIN_AFTER, ticket));
                }
            }
        }
    }

    fn move_slot(&mut self, slot: u16, place: &Place) {
        let Some(map) = self.map.get() else { return };
        if !map.is_at(slot, place)
            && let Ok(map) = map.with_moved(slot, place, &self.shared)
        {
            self.map.set(map);
            self.outlook.news(Instant::now());
        }
    }

    /// To its node, or to wait for the next map.
    fn send(&mut self, ticket: Ticket) {
        let refused = match self.node_of(&ticket) {
            Some(node) => node.push(ticket, &self.shared.counters),
            None => Some(ticket),
        };
        match (refused, &self.last_error) {
            (Some(mut ticket), Some(why)) => ticket.answer(Err(why.clone())),
            (Some(ticket), None) if self.waiting.len() < WAITING_MAX => self.waiting.push(ticket),
            (Some(mut ticket), None) => {
                self.shared.counters.overloaded.add(1);
                ticket.fail(StoreErrorKind::Overloaded, "too many questions wait for a map");
            }
            (None, _) => {}
        }
    }

    /// To a node that is still importing, and may have no slot yet.
    fn send_to(&mut self, mut ticket: Ticket, place: &Place) {
        let Some(mut map) = self.map.get() else { return };
        if let Some(with_guest) = map.with_guest(place, &self.shared) {
            self.map.set(with_guest);
            map = self.map.get().unwrap_or_default();
        }
        match map.node_at(place) {
            Some(node) => drop(node.push(ticket, &self.shared.counters)),
            None => ticket.fail(StoreErrorKind::Moving, "the slot goes to one node too many"),
        }
    }

    fn node_of(&self, ticket: &Ticket) -> Option<Arc<Handle>> {
        self.map.get()?.node_of(ticket.slot).cloned()
    }

    fn next_due(&self) -> Option<Instant> {
        let later = self.later.iter().map(|(time, _)| *time);
        self.waiting.iter().map(|ticket| ticket.due).chain(later).min()
    }

    fn time_passes(&mut self) {
        let now = Instant::now();
        for mut ticket in self.waiting.extract_if(.., |ticket| ticket.due <= now) {
            self.shared.counters.not_sent.add(1);
            ticket.fail(StoreErrorKind::NotSent, "no map of the cluster before the deadline");
        }
        let ripe: Vec<_> = self.later.extract_if(.., |(time, _)| *time <= now).collect();
        for (_, ticket) in ripe {
            self.send(ticket);
        }
    }
}
