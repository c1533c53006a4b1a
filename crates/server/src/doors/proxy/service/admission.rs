//! Admission: limits by the routes, as in forward-auth. The proxy also queues requests of a leaky bucket, holds
//! concurrency permits, and sheds load when the upstream has no capacity.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Bytes;
use tidegate::adaptive::Priority;
use tidegate::tower::{Report, write_retry_after};
use tidegate::{Answer, Clock, Op, Permit, PolicyKind, Source, SystemClock};

use super::super::tracker::RequestTracker;
use super::charge::Charge;
use crate::doors::shared::Problem;
use crate::doors::shared::body::read_ahead;
use crate::doors::shared::refusal::{self, Cause, RefusalFormat, Why};
use crate::logs::RequestId;
use crate::metrics::{Door, Shed};
use crate::net::{Client, ClientRequestSlot, TooMany};
use crate::service::{AppState, Call, InForce, Question, SeenRequest, Unanswered, headers};
use crate::upstreams::Upstreams;
use crate::upstreams::in_flight::{InFlightBound, Passage};
use crate::upstreams::upload::Upload;
use tidegate_request::{
    AmbiguousRequest, Case, ClientRequest, CountedBy, Path, Peer, Resource, RouteMatch,
};

/// An admitted request.
pub(super) struct Admitted {
    /// Measures the request; names the chosen upstream.
    pub(super) tracker: RequestTracker,
    /// The normalised path.
    pub(super) path: Path,
    /// Whether its letter case matters.
    pub(super) case: Case,
    /// Its priority when upstream capacity is scarce.
    pub(super) priority: Option<Priority>,
    /// Whether the peer is a trusted proxy.
    pub(super) is_trusted: bool,
    /// The rate limit headers for the client.
    pub(super) report: Option<Report>,
    /// The concurrency permit, held until the response has ended.
    pub(super) permit: Option<Permit>,
    /// Its place among the requests at the upstreams, likewise.
    pub(super) passage: Option<Passage>,
    /// Its part of the requests in flight, likewise.
    pub(super) client_slot: Option<ClientRequestSlot>,
    /// What it was charged.
    pub(super) charge: Option<Charge>,
    /// What the client can read if the upstream does not answer.
    pub(super) format: RefusalFormat,
    /// Its id, if a refusal names it.
    pub(super) id: Option<RequestId<Box<str>>>,
}

type Refused = Box<Response<Bytes>>;

/// `Retry-After` of shed requests.
const SHED_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Decides, and waits in the queue of a leaky bucket.
pub(super) async fn admit(
    app: &Arc<AppState>,
    in_force: &InForce,
    proxy: &Upstreams,
    client: &Client,
    (parts, body): (&Parts, &mut Upload),
) -> Result<Admitted, Refused> {
    let read: Option<Bytes>;
    let (peer, client_ip) = (client.peer, &in_force.http.client_ip);
    let ambiguous = |why: AmbiguousRequest| Box::new(Problem::from(why).into_response());
    let seen = ClientRequest::direct(client_ip, peer, parts).map_err(ambiguous)?;
    app.service().events().uncounted_proxies(&seen, peer);
    let mut seen = in_force.http.identified(seen);
    let is_trusted = peer.is_trusted(client_ip);
    let client_slot = enter(app, in_force, proxy, client, &seen)?;
    if in_force.http.routes.need_body(&seen).map_err(ambiguous)? {
        Admission::check_room_unread(app, in_force, proxy, &seen)?;
        // The client's own part, also behind a trusted proxy.
        let usage = client_slot.as_ref().map(ClientRequestSlot::usage).or_else(|| client.usage());
        read = read_ahead(usage, body).await.map_err(|it| Box::new(it.into_response()))?;
        if let Some(whole) = &read {
            seen = seen.with_body(whole);
        }
    }
    let call = app.call(in_force, Door::Proxy);
    let found = call.find(&seen, None).map_err(ambiguous)?;
    let case = found.as_ref().map(|found| found.route.case).unwrap_or_default();
    let named = found.as_ref().map(|found| found.key.named()).unwrap_or_default();
    let question = match &found {
        Some(found) => {
            let policy = call.routed(found).map_err(|why| unanswered(in_force, &seen, why))?;
            let question = Question::new(policy, found.key.key(&named), found.cost, Op::Take);
            Some(question.about(logged(in_force, &seen, found)))
        }
        None => None,
    };
    let of_policy = in_force.priority(question.as_ref().map(|question| &question.policy));
    let priority = found.as_ref().and_then(|found| found.priority).or(of_policy);
    let in_flight = in_force.in_flight.as_deref();
    let by = found.as_ref().map(|found| found.by);
    let admission = Admission { app, call, proxy, in_flight, seen: &seen, case, question, by };
    let (tracker, granted) = admission.run(priority).await?;
    let Granted { report, permit, passage, is_charged } = granted;
    let charge = admission.question.as_ref().filter(|_| is_charged).map(Charge::of);
    let format = refusal::format_for(&seen, &in_force.refusals);
    let names_id = refusal::names_id(format, &in_force.refusals);
    Ok(Admitted {
        tracker,
        format,
        id: names_id.then(|| RequestId::of(&seen.headers).into_owned()),
        path: seen.path,
        case,
        priority,
        is_trusted,
        report,
        permit,
        passage,
        client_slot,
        charge,
    })
}

/// The request as the log has it. A person who is refused by an own page is told the id, and may ask about it.
fn logged<'a>(
    in_force: &InForce,
    seen: &'a ClientRequest<'_>,
    found: &RouteMatch<'a>,
) -> SeenRequest<'a, 'a> {
    let (request, rules) = (SeenRequest::new(seen, found), &in_force.refusals);
    let is_told = rules.has_page() && refusal::format_for(seen, rules) == RefusalFormat::Page;
    if is_told { request.with_id(RequestId::of(&seen.headers)) } else { request }
}

/// Counts the request for its client, which may have a part of all requests in flight.
fn enter(
    app: &AppState,
    in_force: &InForce,
    proxy: &Upstreams,
    client: &Client,
    seen: &ClientRequest<'_>,
) -> Result<Option<ClientRequestSlot>, Refused> {
    // A Unix socket has no address: without a header from a proxy nobody knows the client.
    let is_known = client.peer != Peer::Unix || !seen.client.is_loopback();
    let max = proxy.settings.per_client.of(proxy.settings.requests_max);
    client.request(is_known.then_some(seen.client), max).map_err(|TooMany| {
        app.service().shed_client(&seen.client_name());
        let problem = Problem::shed(proxy.settings.shed_status);
        Box::new(refuse(seen, problem, why(in_force, Cause::Client), Some(SHED_RETRY_AFTER)))
    })
}

/// The response when too many requests are in flight.
pub(super) fn shed(
    in_force: &InForce,
    proxy: &Upstreams,
    peer: Peer,
    parts: &Parts,
) -> Response<Bytes> {
    let problem = Problem::shed(proxy.settings.shed_status);
    match ClientRequest::direct(&in_force.http.client_ip, peer, parts) {
        Ok(seen) => refuse(&seen, problem, why(in_force, Cause::Site), Some(SHED_RETRY_AFTER)),
        Err(error) => Problem::from(error).into_response(),
    }
}

/// The response to an admitted request whose place among those at the upstreams was lost before it was sent.
pub(super) fn place_lost(
    in_force: &InForce,
    status: StatusCode,
    format: RefusalFormat,
    id: Option<RequestId<&str>>,
) -> Response<Bytes> {
    let mut response_headers = HeaderMap::new();
    write_retry_after(&mut response_headers, Some(SHED_RETRY_AFTER));
    let why = Why { id, ..why(in_force, Cause::Site) };
    refusal::response_in(format, Problem::shed(status), why, response_headers)
}

fn refuse(
    seen: &ClientRequest<'_>,
    problem: Problem,
    why: Why<'_>,
    wait: Option<Duration>,
) -> Response<Bytes> {
    let mut response_headers = HeaderMap::new();
    write_retry_after(&mut response_headers, wait);
    refusal::response(seen, problem, why, response_headers)
}

/// A refusal by no policy.
fn why(in_force: &InForce, cause: Cause) -> Why<'_> {
    Why { rules: &in_force.refusals, cause, policy: "", id: None }
}

/// A request and its question to the limiter.
struct Admission<'a> {
    app: &'a Arc<AppState>,
    call: Call<'a>,
    proxy: &'a Upstreams,
    in_flight: Option<&'a InFlightBound>,
    seen: &'a ClientRequest<'a>,
    /// Whether the letter case of the path matters.
    case: Case,
    question: Option<Question<'a, 'a>>,
    /// What its policy counts by.
    by: Option<&'a CountedBy>,
}

/// What the limiter granted.
#[derive(Default)]
struct Granted {
    report: Option<Report>,
    permit: Option<Permit>,
    passage: Option<Passage>,
    /// Whether a charge can be refunded.
    is_charged: bool,
}

impl<'a> Admission<'a> {
    /// Gets the limiter's consent and upstream capacity. Capacity is checked before the limiter, so that a shed request
    /// is not charged; if it is gone afterwards, the charge is refunded. It is not reserved during the check, because a
    /// flood that the limiter refuses would use up all capacity.
    async fn run(&self, priority: Option<Priority>) -> Result<(RequestTracker, Granted), Refused> {
        self.check_room(priority)?;
        let mut granted = match &self.question {
            Some(question) => self.decide(question).await?,
            None => Granted::default(),
        };
        if let Some(in_flight) = self.in_flight {
            granted.passage = in_flight.enter().await;
            if granted.passage.is_none() {
                self.refund(&granted).await;
                return Err(self.overloaded(Shed::Places));
            }
        }
        // Always succeeds: there is at least one upstream.
        let unavailable =
            || Box::new(Problem::shed(StatusCode::SERVICE_UNAVAILABLE).into_response());
        let load = self.proxy.choose(&[], SystemClock.steady_us()).ok_or_else(unavailable)?;
        let path = self.seen.path.counted_in(self.case);
        let Some(tracker) = RequestTracker::start(self.app, load, &path, priority) else {
            self.refund(&granted).await;
            return Err(self.overloaded(Shed::InFlight));
        };
        Ok((tracker, granted))
    }

    /// Whether the upstreams have room now.
    fn check_room(&self, priority: Option<Priority>) -> Result<(), Refused> {
        if !self.proxy.has_room(self.app.target_stats(), priority) {
            return Err(self.overloaded(Shed::InFlight));
        }
        if self.in_flight.is_some_and(|in_flight| !in_flight.has_room()) {
            return Err(self.overloaded(Shed::Places));
        }
        Ok(())
    }

    /// The same for a request whose body was not read, so that one which would be refused anyway is not read for it. Its key
    /// is not known yet, its policy and priority are.
    fn check_room_unread(
        app: &'a Arc<AppState>,
        in_force: &'a InForce,
        proxy: &'a Upstreams,
        seen: &'a ClientRequest<'a>,
    ) -> Result<(), Refused> {
        let ambiguous = |why: AmbiguousRequest| Box::new(Problem::from(why).into_response());
        let found = in_force.http.routes.find(seen, None).map_err(ambiguous)?;
        let policy = found.as_ref().and_then(|found| in_force.routed(found));
        let of_policy = in_force.priority(policy.as_ref());
        let priority = found.as_ref().and_then(|found| found.priority).or(of_policy);
        let (call, in_flight) = (app.call(in_force, Door::Proxy), in_force.in_flight.as_deref());
        let (case, question, by) = (Case::default(), None, None);
        Self { app, call, proxy, in_flight, seen, case, question, by }.check_room(priority)
    }

    /// Gives back what a request was charged that is refused after all.
    async fn refund(&self, granted: &Granted) {
        if let Some(question) = self.question.filter(|_| granted.is_charged) {
            Charge::of(&question).refund(self.app).await;
        }
    }

    /// The response when the upstream has no capacity.
    fn overloaded(&self, shed: Shed) -> Refused {
        self.app.metrics().shed(shed);
        let own =
            self.question.as_ref().and_then(|question| question.policy.shed_status(question.key));
        let status = own.unwrap_or(self.proxy.settings.shed_status);
        let why = why(self.call.in_force(), Cause::Site);
        refuse(self.seen, Problem::shed(status), why, Some(SHED_RETRY_AFTER)).into()
    }

    /// Why this limit of a policy refuses.
    fn why(&self, question: &Question<'a, 'a>, binding: &str) -> Why<'a> {
        let cause = Cause::of(question, self.by, binding);
        let (rules, policy) = (&self.call.in_force().refusals, question.policy.name());
        Why { rules, cause, policy, id: question.request.and_then(|request| request.id) }
    }

    /// The response when the limiter gives no answer.
    fn unanswered(&self, why: Unanswered) -> Refused {
        unanswered(self.call.in_force(), self.seen, why)
    }

    /// Asks the limiter.
    async fn decide(&self, question: &Question<'a, 'a>) -> Result<Granted, Refused> {
        let (answer, permit) = match question.policy.kind() {
            PolicyKind::Shaper => return self.wait_in_queue(question).await,
            PolicyKind::Limits => {
                (self.call.check(question).await.map_err(|why| self.unanswered(why))?, None)
            }
            PolicyKind::Concurrency => {
                let acquired = self.call.acquire(question).await;
                let acquired = acquired.map_err(|why| self.unanswered(why))?;
                (acquired.answer, acquired.permit)
            }
        };
        let answer = Unanswered::unless_decided(answer).map_err(|why| self.unanswered(why))?;
        let (dialect, labels) = (self.call.in_force().http.headers, question.policy.labels());
        let report = headers::report(dialect, &answer, labels, self.call.began());
        if answer.decision.allowed() {
            // A permit is released by its drop, and a shadow policy charges nothing when it would have refused.
            let by_store = matches!(answer.source, Source::Store | Source::Lease);
            let is_charged = by_store && permit.is_none() && !answer.shadow_denied;
            return Ok(Granted { report, permit, is_charged, ..Granted::default() });
        }
        let mut response_headers = HeaderMap::new();
        // The first to write it wins.
        write_retry_after(&mut response_headers, self.wait_for_assets(&answer).await);
        if let Some(report) = report {
            report.write(&mut response_headers);
        }
        let problem = Problem::limited(question.policy.refusal_status(question.key), &answer);
        let why = self.why(question, answer.binding);
        Err(refusal::response(self.seen, problem, why, response_headers).into())
    }

    /// How long a person who is refused a page has to wait for its assets, if that is longer than for the page itself: a
    /// page that counts down must not reload into half a page. Refusals that this node remembers cost the store nothing,
    /// and must not: they are most of a flood.
    async fn wait_for_assets(&self, page: &Answer<'_>) -> Option<Duration> {
        let wait_for_page = page.decision.retry_after()?;
        let rules = &self.call.in_force().refusals;
        let is_page = refusal::format_for(self.seen, rules) == RefusalFormat::Page;
        if page.source != Source::Store || !is_page {
            return None;
        }
        let in_force = self.call.in_force();
        let found = in_force.http.routes.find_assets(self.seen).ok()??;
        let policy = in_force.routed(&found).filter(|it| it.kind() == PolicyKind::Limits)?;
        let most = policy.members().map(|member| member.limit.ceiling() / member.cost).min()?;
        let (named, cost) = (found.key.named(), found.cost.saturating_mul(Resource::PER_DOCUMENT));
        let assets = Question::new(policy, found.key.key(&named), cost.min(most), Op::Peek);
        let answer = self.call.check(&assets).await.ok()?;
        answer.decision.retry_after().filter(|wait| *wait > wait_for_page)
    }

    /// Waits in the queue. If the client disconnects meanwhile, its reservation is cancelled unless others have queued
    /// behind it.
    async fn wait_in_queue(&self, question: &Question<'a, 'a>) -> Result<Granted, Refused> {
        let Some(_slot) = self.proxy.queue() else {
            self.app.metrics().shed(Shed::Waiting);
            let problem = Problem::shed(self.proxy.settings.shed_status);
            let why = why(self.call.in_force(), Cause::Site);
            return Err(refuse(self.seen, problem, why, Some(SHED_RETRY_AFTER)).into());
        };
        let queued = self.call.reserve(question).await.map_err(|why| self.unanswered(why))?;
        let reservation = queued.reservation();
        if !reservation.accepted() {
            let wait = reservation.retry_after();
            let problem = Problem::limited_by(question.policy.name(), wait);
            let why = self.why(question, question.policy.name());
            return Err(refuse(self.seen, problem, why, wait).into());
        }
        if !reservation.delay().is_zero() {
            tokio::time::sleep(reservation.delay()).await;
        }
        queued.keep();
        Ok(Granted::default())
    }
}

/// The response to a request that the limiter could not decide. To people, the site does not answer.
fn unanswered(in_force: &InForce, seen: &ClientRequest<'_>, why: Unanswered) -> Refused {
    let format = refusal::format_for(seen, &in_force.refusals);
    refusal::unreachable(format, why.into()).into()
}
