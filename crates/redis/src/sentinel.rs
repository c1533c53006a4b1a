//! Sentinels: one task per sentinel polls the address of the primary, and subscribes to changes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Value, cmd};
use tidegate::{StoreError, StoreErrorKind};
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use crate::access::Access;
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::node::{KnownEndpoint, NodeContext};
use crate::timing::{Backoff, jittered};

/// How often a sentinel is polled though it publishes changes: messages may be lost.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// After a failure sentinels are polled at once, but no more often than this.
const ASK_WHILE_FAILING: Duration = Duration::from_millis(20);

/// How long a sentinel may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// The sentinels that know a primary by its name.
pub(crate) struct Sentinels {
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) primary: String,
    pub(crate) access: Access,
}

/// A sentinel's report: the primary, and the number of the election that made it one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Report {
    epoch: u64,
    endpoint: Endpoint,
}

/// Collects the reports of all sentinels.
struct Reports {
    primary: watch::Sender<KnownEndpoint>,
    state: Mutex<State>,
}

struct State {
    /// The last report of each sentinel, or its error.
    latest: Vec<Option<Result<Report, StoreError>>>,
    /// The epoch of the current primary.
    epoch: u64,
}

/// Follows the primary, as long as the receiver lives.
pub(crate) fn watch(
    sentinels: Sentinels,
    shared: &Arc<NodeContext>,
) -> watch::Receiver<KnownEndpoint> {
    let (primary, endpoint) = watch::channel(Ok(None));
    let latest = vec![None; sentinels.endpoints.len()];
    let reports = Arc::new(Reports { primary, state: Mutex::new(State { latest, epoch: 0 }) });
    let sentinels = Arc::new(sentinels);
    for index in 0..sentinels.endpoints.len() {
        let (reports, sentinels) = (reports.clone(), sentinels.clone());
        let failures = shared.failures.subscribe();
        let shared = shared.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = reports.primary.closed() => {}
                () = follow(index, &sentinels, &reports, failures, &shared) => {}
            }
        });
    }
    endpoint
}

/// Polls one sentinel. Never ends by itself.
async fn follow(
    index: usize,
    sentinels: &Sentinels,
    reports: &Reports,
    mut failures: watch::Receiver<()>,
    shared: &NodeContext,
) {
    let Some(endpoint) = sentinels.endpoints.get(index) else { return };
    let mut backoff = Backoff::default();
    loop {
        let pushed = Arc::<Notify>::default();
        let connection = timeout(
            ANSWER_TIMEOUT,
            Connection::listen(endpoint, &sentinels.access, pushed.clone()),
        );
        let mut result = connection.await.unwrap_or_else(|_| Err(silent(endpoint)));
        while let Ok(connection) = &mut result {
            shared.counters.refreshes.add(1);
            let asked = timeout(ANSWER_TIMEOUT, ask(connection, &sentinels.primary)).await;
            match asked.unwrap_or_else(|_| Err(silent(endpoint))) {
                Ok(report) => {
                    backoff.reset();
                    reports.record(index, Ok(report));
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            let on_failure = async {
                sleep(ASK_WHILE_FAILING).await;
                let _ = failures.changed().await;
            };
            tokio::select! {
                () = connection.drive() => {}
                () = pushed.notified() => {}
                () = on_failure => {}
                () = sleep(jittered(ASK_EVERY)) => {}
            }
        }
        if let Err(error) = result {
            reports.record(index, Err(error));
        }
        sleep(backoff.next()).await;
    }
}

impl Reports {
    /// Records the answer of one sentinel, or its failure.
    fn record(&self, index: usize, report: Result<Report, StoreError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(latest) = state.latest.get_mut(index) {
            *latest = Some(report);
        }
        if let Some(verdict) = state.verdict() {
            self.primary.send_if_modified(|known| {
                let has_changed = match (&verdict, &known) {
                    // A known primary stays, even if no sentinel answers any more.
                    (Err(_), Ok(Some(_))) => false,
                    (verdict, known) => *verdict != **known,
                };
                if has_changed {
                    *known = verdict;
                }
                has_changed
            });
        }
    }
}

impl State {
    /// The primary of the latest election. A sentinel that missed it must not bring an old primary back; if all sentinels
    /// report a lower epoch, they were set up anew. `None` while a first answer may still come.
    fn verdict(&mut self) -> Option<KnownEndpoint> {
        let reports = || self.latest.iter().flatten().filter_map(|report| report.as_ref().ok());
        let Some(best) = reports().max_by_key(|report| report.epoch) else {
            let errors = self.latest.iter().map(|latest| latest.as_ref()?.as_ref().err());
            let errors = errors.collect::<Option<Vec<_>>>()?;
            // The error of a sentinel that answered is more useful than that of one that is unreachable.
            let answered = errors.iter().find(|error| error.kind() != StoreErrorKind::Unreachable);
            return answered.or(errors.last()).map(|error| Err((*error).clone()));
        };
        if best.epoch < self.epoch && reports().count() < self.latest.len() {
            return None;
        }
        let (epoch, endpoint) = (best.epoch, best.endpoint.clone());
        self.epoch = epoch;
        Some(Ok(Some(endpoint)))
    }
}

async fn ask(connection: &mut Connection, name: &str) -> Result<Report, StoreError> {
    let asked = connection.start(cmd("SENTINEL").arg("MASTER").arg(name).take());
    read(connection.value_of(asked).await?)
}

/// Reads `ip …`, `port …`, `config-epoch …` among other fields.
fn read(reply: Value) -> Result<Report, StoreError> {
    let pairs = match reply {
        Value::Map(pairs) => pairs,
        Value::Array(fields) => {
            let mut fields = fields.into_iter();
            std::iter::from_fn(|| Some((fields.next()?, fields.next()?))).collect()
        }
        _ => Vec::new(),
    };
    let field = |name: &str| {
        let (_, value) = pairs.iter().find(|(key, _)| text(key) == Some(name))?;
        text(value)
    };
    let port = field("port").and_then(|port| port.parse().ok()).filter(|port| *port > 0);
    let epoch = field("config-epoch").and_then(|epoch| epoch.parse().ok());
    match (field("ip"), port, epoch) {
        (Some(host), Some(port), Some(epoch)) if !host.is_empty() => {
            Ok(Report { epoch, endpoint: Endpoint::Tcp { host: host.to_owned(), port } })
        }
        _ => Err(StoreError::new(StoreErrorKind::Protocol, "the sentinel's answer makes no sense")),
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

fn silent(endpoint: &Endpoint) -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, format!("sentinel {endpoint}: no answer"))
}
