//! Whether a request may pass: by the routes, as forward-auth does it. And besides: a proxy can wait where a leaky bucket
//! wants it to, and hold a place where concurrency is limited.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response};
use tidegate::tower::{Report, write_retry_after};
use tidegate::{Answer, CheckError, Clock, Op, Permit, Reservation, Source, SystemClock};

use super::super::upstreams::Proxy;
use crate::doors::forward_auth::Found;
use crate::doors::http::{Problem, Told};
use crate::doors::refusal;
use crate::gate::{Gate, Snapshot};
use crate::headers;
use crate::identity::{Path, Seen};
use crate::listen::Peer;
use crate::metrics::DoorName;

/// A request that may pass.
pub(super) struct Admitted {
    /// The path in its only spelling.
    pub(super) path: Path,
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
    gate: &Gate,
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
    let (report, permit) = match snapshot.http.routes.find(&seen, None) {
        Some(found) => Case { gate, snapshot, seen: &seen, found: &found }.decide(proxy).await?,
        None => (None, None),
    };
    Ok(Admitted { path: seen.path, is_trusted, report, permit })
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

/// A request that a route is for.
struct Case<'a> {
    gate: &'a Gate,
    snapshot: &'a Snapshot,
    seen: &'a Seen<'a>,
    found: &'a Found<'a>,
}

impl Case<'_> {
    async fn decide(&self, proxy: &Proxy) -> Result<(Option<Report>, Option<Permit>), Refused> {
        let told = Told::begin(self.gate, DoorName::Proxy);
        let (engine, check) = (&self.snapshot.engine, self.found.check());
        let (answer, permit) = match engine.ask(&check, Op::Take).await {
            Err(CheckError::Shapes(_)) => return self.shape(proxy, &told).await,
            Err(CheckError::NeedsAcquire(_)) => match engine.acquire_for(&check).await {
                Ok(acquired) => (Ok(acquired.answer), acquired.permit),
                Err(error) => (Err(error), None),
            },
            answer => (answer, None),
        };
        told.decided(&check, &answer);
        let answer = answer.map_err(|error| self.unanswered(&error))?;
        self.ruled(&answer).map(|report| (report, permit))
    }

    fn ruled(&self, answer: &Answer<'_>) -> Result<Option<Report>, Refused> {
        let decision = answer.decision;
        if answer.source == Source::FailClosed {
            let mut response = Problem::fails_closed(answer.policy).whole();
            write_retry_after(response.headers_mut(), decision.retry_after());
            return Err(response.into());
        }
        let (dialect, now) = (self.snapshot.http.headers, SystemClock.now());
        if decision.allowed() {
            return Ok(headers::report(dialect, answer, now));
        }
        let mut told = HeaderMap::new();
        headers::add(&mut told, dialect, answer, now);
        let problem = Problem::limited(self.snapshot.refusal_status(self.found), answer);
        Err(refusal::response(self.seen, problem, told).into())
    }

    /// Waits for its turn. A client that leaves is not waited for, though its turn passes unused.
    async fn shape(
        &self,
        proxy: &Proxy,
        told: &Told<'_>,
    ) -> Result<(Option<Report>, Option<Permit>), Refused> {
        let Some(_place) = proxy.queue() else {
            let problem = Problem::shed(proxy.settings.shed_status);
            return Err(refused(self.seen, problem, Some(MOMENT)).into());
        };
        let check = self.found.check();
        let reservation = self.snapshot.engine.reserve(&check).await;
        told.reserved(&check, &reservation);
        let reservation: Reservation = reservation.map_err(|error| self.unanswered(&error))?;
        if !reservation.accepted() {
            let wait = reservation.retry_after();
            let problem = Problem::turned_away(self.found.policy, wait);
            return Err(refused(self.seen, problem, wait).into());
        }
        if !reservation.delay().is_zero() {
            tokio::time::sleep(reservation.delay()).await;
        }
        Ok((None, None))
    }

    fn unanswered(&self, error: &CheckError) -> Refused {
        Problem::unanswered(&self.snapshot.engine, error).whole().into()
    }
}
