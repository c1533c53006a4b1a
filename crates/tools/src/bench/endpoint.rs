//! One of the measured endpoints: a server, or the library itself.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Engine;

use super::client::{Client, EmbeddedClient};
use super::config::BenchConfig;
use super::door::Door;
use super::error::{ErrorKind, RequestError};
use super::grpc::GrpcClient;
use super::http::{HttpClient, HttpTemplate, Verdict};
use super::load::in_time;
use super::local_server::{LocalServer, POLICY, PolicySource};
use super::resp::{RespClient, RespTemplate};
use super::target::{ServerUrl, Target};
use super::upstream;
use crate::Failure;
use crate::output::value_name;
use tidegate_config::Config;
use tidegate_config::demo;

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) name: String,
    protocol: Protocol,
    /// The server that was started for it.
    local: Option<LocalServer>,
    /// A reason to doubt its figures.
    pub(super) note: Option<&'static str>,
}

/// Who asks first where every request spends.
const PROBE_KEY: &str = "tidegate-bench";
/// What a server without a word about limits may be.
const UNLIMITED: &str = "its first answer has no RateLimit headers: either no route matches --path, or the server does not trust \
                         this machine (`client_ip.trusted_proxies`) and ignores the path, so that nothing is limited; or it \
                         sends none (`headers`)";

#[derive(Debug)]
enum Protocol {
    Http(Arc<HttpTemplate>),
    Grpc(Target),
    Resp(Arc<RespTemplate>),
    Embedded(EmbeddedClient),
}

impl Endpoint {
    /// The named server, or a local one that is started now, and what it is compared with.
    pub(super) async fn all(config: &BenchConfig) -> Result<Vec<Self>, Failure> {
        let mut upstream = None;
        if config.door == Door::Proxy && config.server.is_none() {
            let started = upstream::start().await;
            let started = started.map_err(|error| Failure::new(format!("no upstream: {error}")))?;
            upstream = Some(format!("http://{started}"));
        }
        let first = Self::first(config, upstream.as_deref()).await?;
        if let Some(url) = &config.against {
            return Ok(vec![first, Self::probe(config, url).await?.0]);
        }
        let Some(url) = upstream else { return Ok(vec![first]) };
        let url = ServerUrl::read(&url, config.door).map_err(Failure::new)?;
        let (direct, _) = Self::probe(config, &url).await?;
        Ok(vec![first, Self { name: "its upstream, asked directly".to_owned(), ..direct }])
    }

    async fn first(config: &BenchConfig, upstream: Option<&str>) -> Result<Self, Failure> {
        if config.door == Door::Embedded {
            let protocol = Protocol::Embedded(embedded_client(config)?);
            return Ok(Self { name: "embedded".to_owned(), protocol, local: None, note: None });
        }
        if let Some(url) = &config.server {
            let (endpoint, is_proxy) = Self::probe(config, url).await?;
            if config.door == Door::Proxy && !is_proxy {
                return Err(Failure::new(format!(
                    "{} is no proxy of tidegate: its answer has no `Via` of one. --server is the address of `listen: \
                     {{ proxy: … }}`, or of `tidegate proxy`; a site without it goes to --against",
                    endpoint.name
                )));
            }
            return Ok(endpoint);
        }
        let local = LocalServer::start(config, upstream).await?;
        let url = ServerUrl::read(&local.url, config.door).map_err(Failure::new)?;
        let (endpoint, _) = Self::probe(config, &url).await?;
        Ok(Self { name: "tidegate, started for this".to_owned(), local: Some(local), ..endpoint })
    }

    /// A running server, after one request that spends nothing of the keys; and whether it is a proxy.
    async fn probe(config: &BenchConfig, url: &ServerUrl) -> Result<(Self, bool), Failure> {
        let BenchConfig { door, may_be_remote, tls, .. } = config;
        let target = Target::resolve(url, *door, *may_be_remote, tls.as_ref()).await?;
        let request = &config.request;
        let key = if door.goes_by_routes() { PROBE_KEY } else { config.keys.at(0) };
        let (mut note, mut is_proxy) = (None, false);
        let probe = async {
            Ok(match config.door {
                Door::Http | Door::Unix => {
                    Protocol::Http(HttpTemplate::probe(&target, request, key).await?.into())
                }
                Door::Auth => {
                    let probe = HttpTemplate::probe_routed(&target, request, key, Verdict::Auth);
                    let (template, is_limited) = probe.await?;
                    note = (!is_limited).then_some(UNLIMITED);
                    Protocol::Http(template.into())
                }
                Door::Proxy => {
                    let probe = HttpTemplate::probe_routed(&target, request, key, Verdict::Page);
                    let (template, has_proxy) = probe.await?;
                    is_proxy = has_proxy;
                    Protocol::Http(template.into())
                }
                Door::Grpc => {
                    GrpcClient::probe(&target, request, key).await?;
                    Protocol::Grpc(target.clone())
                }
                Door::Resp => {
                    Protocol::Resp(RespTemplate::probe(&target, request, key).await?.into())
                }
                Door::Embedded => {
                    return Err(RequestError::new(ErrorKind::Connect, "embedded has no URL"));
                }
            })
        };
        let protocol = in_time(probe).await;
        let protocol = protocol.map_err(|error| not_usable(&target, config.door, &error))?;
        Ok((Self { name: target.name, protocol, local: None, note }, is_proxy))
    }

    /// All clients, connected.
    pub(super) async fn connect(&self, config: &BenchConfig) -> Result<Vec<Client>, Failure> {
        let mut clients = Vec::new();
        for _ in 0..config.connections {
            let connected = in_time(self.connect_once(config)).await.map_err(|error| {
                let (opened, all) = (clients.len(), config.connections);
                Failure::new(format!("{} (after {opened} of {all} connections)", error.message))
            });
            clients.extend(connected?);
        }
        Ok(clients)
    }

    /// The clients of one connection: with gRPC as many as calls at once.
    async fn connect_once(&self, config: &BenchConfig) -> Result<Vec<Client>, RequestError> {
        Ok(match &self.protocol {
            Protocol::Http(template) => {
                let mut client = HttpClient::new(template.clone());
                client.connect().await?;
                vec![Client::Http(client)]
            }
            Protocol::Resp(template) => {
                let mut client = RespClient::new(template.clone(), config.pipeline.into());
                client.connect().await?;
                vec![Client::Resp(client)]
            }
            Protocol::Grpc(target) => {
                let client = Arc::new(GrpcClient::new(target, &config.request));
                client.connect().await?;
                (0..config.pipeline).map(|_| Client::Grpc(client.clone())).collect()
            }
            Protocol::Embedded(client) => vec![Client::Embedded(client.clone())],
        })
    }

    /// CPU time of the local server so far.
    pub(super) fn cpu(&self) -> Option<Duration> {
        self.local.as_ref().and_then(LocalServer::cpu)
    }
}

fn not_usable(target: &Target, door: Door, error: &RequestError) -> Failure {
    let name = &target.name;
    Failure::new(match error.kind {
        ErrorKind::Connect => error.message.clone(),
        ErrorKind::Refused => format!("{name} cannot be asked: {}", with_hint(&error.message)),
        ErrorKind::Lost | ErrorKind::Timeout | ErrorKind::BadReply => format!(
            "{name} does not speak what --door {} speaks ({}): {}",
            value_name(&door),
            error.message,
            door.hint()
        ),
    })
}

/// The default of `--policy` may be unknown to the user.
fn with_hint(message: &str) -> String {
    let hint =
        if message.contains("no policy is called") { " (say which with --policy)" } else { "" };
    format!("{message}{hint}")
}

/// The policies of the configuration over a store in memory, whatever store it names.
fn embedded_client(config: &BenchConfig) -> Result<EmbeddedClient, Failure> {
    let builder = match &config.policies {
        PolicySource::Limit(limit) => Engine::builder().policy(POLICY, limit.as_str()),
        PolicySource::Config(file) => {
            let read =
                file.as_ref().map_or_else(demo::config, |file| Config::read(file, config.stores));
            let read = read.map_err(|problems| Failure::new(problems.to_string()))?;
            let policies = read.policies.into_iter();
            policies.fold(Engine::builder(), |builder, (name, policy)| builder.policy(name, policy))
        }
    };
    let engine = builder.build().map_err(|error| Failure::new(error.to_string()))?;
    let request = &config.request;
    EmbeddedClient::new(engine, &request.policy, request.cost)
        .map_err(|why| Failure::new(with_hint(&why)))
}
