//! The client of the SDK: its region, credentials and connections.
//!
//! Credentials come from the usual chain: environment, profile, web identity, container, instance. That can take longer
//! than a check may, so that a task of its own loads them, and renews them before they expire. No check waits for the
//! chain, except those that come before it has answered for the first time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use tidegate::store_kit::NetworkCounters;
use tidegate::{Clock, StoreError, StoreErrorKind, SystemClock};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::url::DynamoDbUrl;

/// How long the chain may take.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Credentials are renewed so long before they expire, or half-way if they live for less.
const RENEW_BEFORE: Duration = Duration::from_mins(5);

/// The pause after the chain failed: doubled each time, up to a minute.
const RETRY_UNIT: Duration = Duration::from_secs(1);
const RETRY_DOUBLINGS: u32 = 6;

/// What the chain has given so far.
#[derive(Clone, Debug)]
enum Loaded {
    NotYet,
    Failed(StoreError),
    Client(Client),
}

/// A client that is there when the chain has answered.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) url: DynamoDbUrl,
    loaded: watch::Receiver<Loaded>,
    pub(crate) counters: Arc<NetworkCounters>,
    /// The HTTP client keeps its connections to itself: what is counted is whether the last call was answered.
    answers: AtomicBool,
}

impl Connection {
    /// Starts to load credentials, from the usual chain if none are given. Needs a running tokio runtime.
    pub(crate) fn open(
        url: DynamoDbUrl,
        given: Option<SharedCredentialsProvider>,
        counters: Arc<NetworkCounters>,
    ) -> Self {
        let (to, loaded) = watch::channel(Loaded::NotYet);
        tokio::spawn(keep_loaded(url.clone(), given, to));
        Self { url, loaded, counters, answers: AtomicBool::new(false) }
    }

    /// The client, or why there is none.
    pub(crate) async fn client(&self, due: Instant) -> Result<Client, StoreError> {
        let mut loaded = self.loaded.clone();
        let is_known = |loaded: &Loaded| !matches!(loaded, Loaded::NotYet);
        match timeout_at(due, loaded.wait_for(is_known)).await {
            Ok(Ok(loaded)) => match &*loaded {
                Loaded::Client(client) => Ok(client.clone()),
                Loaded::Failed(error) => Err(error.clone()),
                Loaded::NotYet => Err(not_loaded()),
            },
            _ => Err(not_loaded()),
        }
    }

    /// Notes whether a call was answered, be it with an error.
    pub(crate) fn note(&self, answered: bool) {
        match (self.answers.swap(answered, Ordering::Relaxed), answered) {
            (false, true) => self.counters.connects.add(1),
            (true, false) => self.counters.disconnects.add(1),
            (false, false) => self.counters.connect_failures.add(1),
            (true, true) => {}
        }
    }
}

fn not_loaded() -> StoreError {
    StoreError::new(StoreErrorKind::NotSent, "the AWS credentials are not loaded yet")
}

/// Loads credentials, and loads them again before they expire, until the store is dropped.
async fn keep_loaded(
    url: DynamoDbUrl,
    given: Option<SharedCredentialsProvider>,
    to: watch::Sender<Loaded>,
) {
    let http = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).build_https();
    let mut failures = 0;
    // Ends with the store, or with credentials that do not expire.
    while !to.is_closed() {
        let pause = match load(&url, given.clone(), &http).await {
            Ok((client, expires)) => {
                failures = 0;
                to.send_replace(Loaded::Client(client));
                let Some(expires) = expires else { return };
                renew_after(expires)
            }
            Err(error) => {
                // Those from before may be good for a while.
                to.send_if_modified(|loaded| {
                    let had_none = !matches!(loaded, Loaded::Client(_));
                    if had_none {
                        *loaded = Loaded::Failed(error);
                    }
                    had_none
                });
                failures = (failures + 1).min(RETRY_DOUBLINGS);
                RETRY_UNIT * (1 << failures)
            }
        };
        let _ = timeout(pause, to.closed()).await;
    }
}

/// A client with credentials of its own, and when they expire.
async fn load(
    url: &DynamoDbUrl,
    given: Option<SharedCredentialsProvider>,
    http: &SharedHttpClient,
) -> Result<(Client, Option<SystemTime>), StoreError> {
    let late = |_| denied("the chain of AWS credentials gave no answer within 10 s");
    let config = timeout(LOAD_TIMEOUT, settings(url, given, http)).await.map_err(late)?;
    if config.region().is_none() {
        return Err(denied("no region: write dynamodb://TABLE?region=…, or set AWS_REGION"));
    }
    let Some(provider) = config.credentials_provider() else {
        return Err(denied("no AWS credentials"));
    };
    let credentials = timeout(LOAD_TIMEOUT, provider.provide_credentials()).await.map_err(late)?;
    let credentials = credentials.map_err(|error| {
        let why = crate::error::chain(&error);
        denied(&format!("no AWS credentials ({why}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give it a role"))
    })?;
    let expires = credentials.expiry();
    Ok((client(url, &config, credentials), expires))
}

async fn settings(
    url: &DynamoDbUrl,
    given: Option<SharedCredentialsProvider>,
    http: &SharedHttpClient,
) -> SdkConfig {
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(http.clone())
        // A call that was sent is sent again only where `write` knows what it does.
        .retry_config(RetryConfig::disabled())
        // A check has its deadline.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    if let Some(region) = &url.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(given) = given {
        loader = loader.credentials_provider(given);
    }
    loader.load().await
}

fn client(url: &DynamoDbUrl, config: &SdkConfig, credentials: Credentials) -> Client {
    let mut config = config.clone().into_builder();
    config.set_credentials_provider(Some(SharedCredentialsProvider::new(credentials)));
    if let Some(endpoint) = &url.endpoint {
        config.set_endpoint_url(Some(endpoint.clone()));
    }
    Client::new(&config.build())
}

fn denied(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Denied, why.to_owned())
}

/// How long credentials are good for before others are asked for.
fn renew_after(expires: SystemTime) -> Duration {
    let now = Duration::from_micros(SystemClock.now().as_micros());
    let left = expires.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(now);
    left.saturating_sub(RENEW_BEFORE).max(left / 2).max(RETRY_UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_renewed_before_they_expire() {
        let now = UNIX_EPOCH + Duration::from_micros(SystemClock.now().as_micros());
        for (left_s, from_s, to_s) in [(3600, 3290, 3301), (120, 55, 61), (0, 1, 2)] {
            let after = renew_after(now + Duration::from_secs(left_s));
            let expected = Duration::from_secs(from_s)..Duration::from_secs(to_s);
            assert!(expected.contains(&after), "{left_s} s left: {after:?}");
        }
    }
}
