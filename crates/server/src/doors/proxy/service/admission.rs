//! Whether a request may pass: by the routes, as forward-auth does it. And besides: a proxy can wait where a leaky bucket
//! wants it to, hold a place where concurrency is limited, and knows whether there is room behind.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode};
use tidegate::adaptive::Priority;
use tidegate::tower::{Report, write_retry_after};
use tidegate::{Clock, Op, Permit, PolicyKind, Source, SystemClock};

use super::super::watch::Watch;
use crate::doors::shared::Problem;
use crate::doors::shared::refusal;
use crate::metrics::{DoorName, Shed};
use crate::service::AppState;
use crate::service::headers;
use crate::service::{Call, InForce, Question, Unanswered};
use crate::upstreams::Proxy;
use tidegate_request::Peer;
use tidegate_request::{Path, Seen};

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
    /// The rate limit headers for the client.
    pub(super) report: Option<Report>,
    /// The place that it holds until its answer has ended.
    pub(super) permit: Option<Permit>,
}

type Refused = Box<Response<Bytes>>;

/// When those may come back who came while there was too much to do.
const MOMENT: Duration = Duration::from_secs(1);

/// Decides, and waits if a leaky bucket says so.
pub(super) async fn admit(
    app: &Arc<AppState>,
    in_force: &InForce,
    proxy: &Proxy,
    peer: Peer,
    parts: &Parts,
) -> Result<Admitted, Refused> {
    let client_ip = &in_force.http.client_ip;
    let seen = Seen::direct(client_ip, peer, parts)
        .map_err(|doubt| Box::new(Problem::bad_input(&doubt.to_string()).whole()))?;
    let is_trusted = match peer {
        Peer::Ip(ip) => client_ip.trusts(ip),
        Peer::Unix => true,
    };
    let found = in_force.http.routes.find(&seen, None);
    let named = found.as_ref().map(|found| found.key.named()).unwrap_or_default();
    let call = app.call(in_force, DoorName::Proxy);
    let question = match &found {
        Some(found) => {
            let policy = call.routed(found).map_err(|why| Problem::from(why).whole())?;
            Some(Question::new(policy, found.key.key(&named), found.cost, Op::Take))
        }
        None => None,
    };
    let priority = in_force.priority(question.as_ref().map(|question| &question.policy));
    let case = Case { app, call, proxy, seen: &seen, question };
    let (watch, passed) = case.settle(priority).await?;
    let Cleared { report, permit, .. } = passed;
    Ok(Admitted { watch, path: seen.path, priority, is_trusted, report, permit })
}

/// The answer to a request that is not looked at because the server is overloaded.
pub(super) fn shed(
    in_force: &InForce,
    proxy: &Proxy,
    peer: Peer,
    parts: &Parts,
) -> Response<Bytes> {
    let problem = Problem::shed(proxy.settings.shed_status);
    match Seen::direct(&in_force.http.client_ip, peer, parts) {
        Ok(seen) => refused(&seen, problem, Some(MOMENT)),
        Err(doubt) => Problem::bad_input(&doubt.to_string()).whole(),
    }
}

fn refused(seen: &Seen<'_>, problem: Problem, wait: Option<Duration>) -> Response<Bytes> {
    let mut told = HeaderMap::new();
    write_retry_after(&mut told, wait);
    refusal::response(seen, problem, told)
}

/// A request, and what its route asks.
struct Case<'a> {
    app: &'a Arc<AppState>,
    call: Call<'a>,
    proxy: &'a Proxy,
    seen: &'a Seen<'a>,
    question: Option<Question<'a, 'a>>,
}

/// What a request has that its limit lets pass.
#[derive(Default)]
struct Cleared {
    report: Option<Report>,
    permit: Option<Permit>,
    /// Whether it was charged something that can be given back.
    is_charged: bool,
}

impl<'a> Case<'a> {
    /// A place behind, and the limit's consent. Who finds no place is not charged: it is looked for before the limit is
    /// asked, and if it was taken meanwhile, what was charged is given back. It is not held while the limit is asked:
    /// a flood that the limit refuses would take all places.
    async fn settle(&self, priority: Option<Priority>) -> Result<(Watch, Cleared), Refused> {
        if !self.proxy.has_place(self.app.observed(), priority) {
            return Err(self.no_place());
        }
        let cleared = match &self.question {
            Some(question) => self.decide(question).await?,
            None => Cleared::default(),
        };
        // There is at least one upstream.
        let unavailable = || Box::new(Problem::shed(StatusCode::SERVICE_UNAVAILABLE).whole());
        let load = self.proxy.choose(&[], SystemClock.steady_us()).ok_or_else(unavailable)?;
        let watch = Watch::begin(self.app, load, self.seen.path.counted(), priority);
        if watch.is_none()
            && let Some(question) = self.question.filter(|_| cleared.is_charged)
        {
            let Question { policy, key, cost, .. } = question;
            // If that fails too, nothing more can be done for it.
            let _ = self.call.check(&Question::new(policy, key, cost, Op::Refund)).await;
        }
        Ok((watch.ok_or_else(|| self.no_place())?, cleared))
    }

    /// As many are under way as what is behind can bear.
    fn no_place(&self) -> Refused {
        self.app.metrics().shed(Shed::InFlight);
        let own = self.question.as_ref().and_then(|asked| asked.policy.shed_status(asked.key));
        let status = own.unwrap_or(self.proxy.settings.shed_status);
        refused(self.seen, Problem::shed(status), Some(MOMENT)).into()
    }

    /// What the limit says.
    async fn decide(&self, question: &Question<'a, '_>) -> Result<Cleared, Refused> {
        let (answer, permit) = match question.policy.kind() {
            PolicyKind::Shaper => return self.shape(question).await,
            PolicyKind::Limits => (self.call.check(question).await.map_err(unanswered)?, None),
            PolicyKind::Concurrency => {
                let acquired = self.call.acquire(question).await.map_err(unanswered)?;
                (acquired.answer, acquired.permit)
            }
        };
        let answer = Unanswered::unless_decided(answer).map_err(unanswered)?;
        let (dialect, labels) = (self.call.in_force().http.headers, question.policy.labels());
        let report = headers::report(dialect, &answer, labels, self.call.began());
        if answer.decision.allowed() {
            // A place is given back by itself; and what a shadow would have refused was never charged.
            let by_store = matches!(answer.source, Source::Store | Source::Lease);
            let is_charged = by_store && permit.is_none() && !answer.shadow_denied;
            return Ok(Cleared { report, permit, is_charged });
        }
        let mut told = HeaderMap::new();
        if let Some(report) = report {
            report.write(&mut told);
        }
        let problem = Problem::limited(question.policy.refusal_status(question.key), &answer);
        Err(refusal::response(self.seen, problem, told).into())
    }

    /// Waits for its turn. The turn of a client that leaves meanwhile is given back, if nobody has queued behind it.
    async fn shape(&self, question: &Question<'a, '_>) -> Result<Cleared, Refused> {
        let Some(_place) = self.proxy.queue() else {
            self.app.metrics().shed(Shed::Waiting);
            let problem = Problem::shed(self.proxy.settings.shed_status);
            return Err(refused(self.seen, problem, Some(MOMENT)).into());
        };
        let queued = self.call.reserve(question).await.map_err(unanswered)?;
        let reservation = queued.reservation();
        if !reservation.accepted() {
            let wait = reservation.retry_after();
            let problem = Problem::turned_away(question.policy.name(), wait);
            return Err(refused(self.seen, problem, wait).into());
        }
        if !reservation.delay().is_zero() {
            tokio::time::sleep(reservation.delay()).await;
        }
        queued.keep();
        Ok(Cleared::default())
    }
}

fn unanswered(why: Unanswered) -> Refused {
    Problem::from(why).whole().into()
}
