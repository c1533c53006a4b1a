//! Whether a request may pass: by the routes, as forward-auth does it. And besides: a proxy can wait where a leaky bucket
//! wants it to, hold a place where concurrency is limited, and knows whether there is room behind.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use tidegate::adaptive::Priority;
use tidegate::tower::{Report, write_retry_after};
use tidegate::{Answer, CheckError, Clock, Op, Permit, Queued, Source, SystemClock, Timestamp};

use super::super::upstreams::Proxy;
use super::super::watch::Watch;
use crate::doors::forward_auth::Found;
use crate::doors::http::{Problem, Told};
use crate::doors::refusal;
use crate::gate::{Gate, Snapshot};
use crate::headers;
use crate::identity::{Path, Seen};
use crate::listen::Peer;
use crate::metrics::{DoorName, Shed};

/// A request that may pass, and has a place behind.
pub(super) struct Admitted {
    /// Whom it goes to; it is measured from here on.
    pub(super) watch: Watch,
    /// The path in its only spelling.
    pub(super) path: Path,
    /// What it goes by where there is little room.
    pub(super) priority: Option<Priority>,
    /// Whether the peer's word on where it comes from is taken.
    pub(super) is_trusted: bool,
    /// What the client is told about its limit.
    pub(super) report: Option<Report>,
    /// The place that it holds until its answer has ended.
    pub(super) permit: Option<Permit>,
}

type Refused = Box<Response<Bytes>>;

/// When those may come back who came while there was too much to do.
const MOMENT: Duration = Duration::from_secs(1);

/// Decides, and waits if a leaky bucket says so.
pub(super) async fn admit(
    gate: &Arc<Gate>,
    snapshot: &Snapshot,
    proxy: &Proxy,
    peer: Peer,
    parts: &Parts,
) -> Result<Admitted, Refused> {
    let client_ip = &snapshot.http.client_ip;
    let seen = Seen::direct(client_ip, peer, parts)
        .map_err(|doubt| Box::new(Problem::bad_input(&doubt.to_string()).whole()))?;
    let is_trusted = match peer {
        Peer::Ip(ip) => client_ip.trusts(ip),
        Peer::Unix => true,
    };
    let found = snapshot.http.routes.find(&seen, None);
    let case = Case { gate, snapshot, proxy, seen: &seen, found: found.as_ref() };
    let priority = snapshot.follower.priority_of(found.as_ref().map(|found| found.policy));
    let (watch, passed) = case.settle(priority).await?;
    let Cleared { report, permit } = passed;
    Ok(Admitted { watch, path: seen.path, priority, is_trusted, report, permit })
}

/// What somebody is told who is not even looked at, because there is too much to do.
pub(super) fn shed(
    snapshot: &Snapshot,
    proxy: &Proxy,
    peer: Peer,
    parts: &Parts,
) -> Response<Bytes> {
    let problem = Problem::shed(proxy.settings.shed_status);
    match Seen::direct(&snapshot.http.client_ip, peer, parts) {
        Ok(seen) => refused(&seen, problem, Some(MOMENT)),
        Err(doubt) => Problem::bad_input(&doubt.to_string()).whole(),
    }
}

fn refused(seen: &Seen<'_>, problem: Problem, wait: Option<Duration>) -> Response<Bytes> {
    let mut told = HeaderMap::new();
    write_retry_after(&mut told, wait);
    refusal::response(seen, problem, told)
}

/// A request, and the route that is for it.
struct Case<'a> {
    gate: &'a Arc<Gate>,
    snapshot: &'a Snapshot,
    proxy: &'a Proxy,
    seen: &'a Seen<'a>,
    found: Option<&'a Found<'a>>,
}

/// What a request has that its limit lets pass.
#[derive(Default)]
struct Cleared {
    report: Option<Report>,
    permit: Option<Permit>,
}

impl Case<'_> {
    /// A place behind, and the limit's consent. Who finds no place is not charged: it is looked for before the limit is
    /// asked, and if it was taken meanwhile, what was charged is given back. It is not held while the limit is asked:
    /// a flood that the limit refuses would take all places.
    async fn settle(&self, priority: Option<Priority>) -> Result<(Watch, Cleared), Refused> {
        if !self.proxy.has_place(self.gate.observed(), priority) {
            return Err(self.no_place());
        }
        let (cleared, is_charged) = match self.found {
            Some(found) => self.decide(found).await?,
            None => (Cleared::default(), false),
        };
        // There is at least one upstream.
        let unavailable = || Box::new(Problem::shed(StatusCode::SERVICE_UNAVAILABLE).whole());
        let load = self.proxy.choose(&[], SystemClock.steady_us()).ok_or_else(unavailable)?;
        let watch = Watch::begin(self.gate, load, self.seen.path.counted(), priority);
        if watch.is_none()
            && let Some(found) = self.found.filter(|_| is_charged)
        {
            // If that fails too, nothing more can be done for it.
            let named = found.key.named();
            let _ = self.snapshot.engine.ask(&found.check(&named), Op::Refund).await;
        }
        Ok((watch.ok_or_else(|| self.no_place())?, cleared))
    }

    /// As many are under way as what is behind can bear.
    fn no_place(&self) -> Refused {
        self.gate.metrics().shed(Shed::InFlight);
        let usual = self.proxy.settings.shed_status;
        let status = self.found.and_then(|found| self.snapshot.shed_status(found));
        refused(self.seen, Problem::shed(status.unwrap_or(usual)), Some(MOMENT)).into()
    }

    /// What the limit says, and whether it was charged something that can be given back.
    async fn decide(&self, found: &Found<'_>) -> Result<(Cleared, bool), Refused> {
        let told = Told::begin(self.gate, DoorName::Proxy);
        let (engine, named) = (&self.snapshot.engine, found.key.named());
        let check = found.check(&named);
        let (answer, permit) = match engine.ask(&check, Op::Take).await {
            Err(CheckError::Shapes(_)) => {
                self.shape(found, &told).await?;
                return Ok((Cleared::default(), false));
            }
            Err(CheckError::NeedsAcquire(_)) => match engine.acquire_for(&check).await {
                Ok(acquired) => (Ok(acquired.answer), acquired.permit),
                Err(error) => (Err(error), None),
            },
            answer => (answer, None),
        };
        told.decided(&check, &answer);
        let answer = answer.map_err(|error| self.unanswered(&error))?;
        let report = self.ruled(found, &answer, told.began())?;
        // A place is given back by itself; and what a shadow would have refused was never charged.
        let by_store = matches!(answer.source, Source::Store | Source::Lease);
        let is_charged = by_store && permit.is_none() && !answer.shadow_denied;
        Ok((Cleared { report, permit }, is_charged))
    }

    fn ruled(
        &self,
        found: &Found<'_>,
        answer: &Answer<'_>,
        now: Timestamp,
    ) -> Result<Option<Report>, Refused> {
        Problem::unless_decided(answer).map_err(Problem::whole)?;
        let dialect = self.snapshot.http.headers;
        if answer.decision.allowed() {
            return Ok(headers::report(dialect, answer, now));
        }
        let mut told = HeaderMap::new();
        headers::add(&mut told, dialect, answer, now);
        let problem = Problem::limited(self.snapshot.refusal_status(found), answer);
        Err(refusal::response(self.seen, problem, told).into())
    }

    /// Waits for its turn. The turn of a client that leaves meanwhile is given back, if nobody has queued behind it.
    async fn shape(&self, found: &Found<'_>, told: &Told<'_>) -> Result<(), Refused> {
        let Some(_place) = self.proxy.queue() else {
            self.gate.metrics().shed(Shed::Waiting);
            let problem = Problem::shed(self.proxy.settings.shed_status);
            return Err(refused(self.seen, problem, Some(MOMENT)).into());
        };
        let named = found.key.named();
        let check = found.check(&named);
        let queued = self.snapshot.engine.queue(&check).await;
        told.reserved(&check, queued.as_ref().map(Queued::reservation));
        let unqueued = |error| Problem::unqueued(&self.snapshot.engine, check.policy, &error);
        let queued = queued.map_err(|error| unqueued(error).whole())?;
        let reservation = queued.reservation();
        if !reservation.accepted() {
            let wait = reservation.retry_after();
            let problem = Problem::turned_away(found.policy, wait);
            return Err(refused(self.seen, problem, wait).into());
        }
        if !reservation.delay().is_zero() {
            tokio::time::sleep(reservation.delay()).await;
        }
        queued.keep();
        Ok(())
    }

    fn unanswered(&self, error: &CheckError) -> Refused {
        Problem::unanswered(&self.snapshot.engine, error).whole().into()
    }
}
