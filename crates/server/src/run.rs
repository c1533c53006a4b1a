//! Opens the doors over a store, and closes them at the end.

mod reload;
mod store_watch;
mod systemd;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate::Engine;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::reload::Reloader;
pub use self::reload::Source;
use self::store_watch::Watched;
use self::systemd::{Notifier, Sockets};
use crate::adaptive::AdaptiveLimits;
use crate::dashboard::{Feed, Sampler};
use crate::doors::grpc::{GrpcBounds, GrpcDoor, Service};
use crate::doors::http::{self, HttpDoor};
use crate::doors::proxy::ProxyDoor;
use crate::doors::resp::{Password, RespBounds, RespDoor};
#[cfg(feature = "otlp")]
use crate::metrics::WithFigures;
use crate::metrics::{DoorName, Metrics};
use crate::net::http::HttpBounds;
use crate::net::tls;
use crate::net::{AcceptBounds, ConnectionHandler, Shutdown, accept};
use crate::net::{Listener, Stream};
use crate::net::{Preamble, TrustedPeers};
use crate::service::AppState;
use crate::service::Draft;
#[cfg(feature = "otlp")]
use crate::telemetry::Telemetry;
use crate::upstreams::{self, Upstreams};
use tidegate::driver::{self, StoreDrivers, StoreOptions};
use tidegate_config::Address;
use tidegate_config::Exposure;
use tidegate_config::{Config, Listen, Listens, SecretSource};
use tidegate_core::text::printable;
use tidegate_request::Peer;

/// Why a server did not start, for people.
#[derive(Debug)]
pub struct ServeError(String);

impl ServeError {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServeError {}

/// Serves what a source says, until told to stop.
pub fn serve(source: Source, insecure_bind: bool, stores: StoreDrivers) -> Result<(), ServeError> {
    // Before there is a second thread: it takes what it reads out of the environment.
    let sockets = Sockets::from_env().map_err(ServeError::new)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ServeError::new(format!("cannot start: {error}")))?;
    let served = runtime.block_on(until_stopped(source, insecure_bind, stores, sockets));
    // What is still under way waits for a file or a name that hangs, and nobody for what comes of it.
    runtime.shutdown_background();
    served
}

async fn until_stopped(
    source: Source,
    insecure_bind: bool,
    stores: StoreDrivers,
    mut sockets: Sockets,
) -> Result<(), ServeError> {
    // Before the file is read, so that no change is missed.
    let identity = reload::identity(&source);
    let config = (source.read)().map_err(|lines| ServeError::new(told(&lines)))?;
    let (draft, store) = built(&config, stores)?;
    let password = config.listen.resp.as_ref().map(password_of).transpose()?.flatten();
    let Listens { http, grpc, resp, proxy: passing } = &config.listen;
    let (app, feed) = (AppState::new(draft), Arc::<Feed>::default());
    let may_be_open =
        |exposure: &Exposure| match exposure.allow(has_secret(exposure.door, &config, &app)) {
            Err(why) if !insecure_bind => Err(ServeError::new(why)),
            _ => Ok(()),
        };
    for (name, door) in DoorName::ALL.into_iter().zip([http, grpc, resp, passing]) {
        door.as_ref().map_or(Ok(()), |door| may_be_open(&exposure_of(name, door)))?;
    }
    // Before anybody can know that we run, so that no signal finds us unprepared.
    let (interrupt, terminate) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    let hangup = on(SignalKind::hangup())?;
    // All addresses are bound before the first connection is accepted: the server starts whole or not at all.
    let (http, grpc, resp, passing) = (
        open(DoorName::Http, http.as_ref(), tls::HTTP, &app, &mut sockets).await?,
        open(DoorName::Grpc, grpc.as_ref(), tls::GRPC, &app, &mut sockets).await?,
        open(DoorName::Resp, resp.as_ref(), &[], &app, &mut sockets).await?,
        open(DoorName::Proxy, passing.as_ref(), tls::HTTP, &app, &mut sockets).await?,
    );
    // Once more, for sockets that were handed over: those are where somebody else has put them.
    for (name, place) in DoorName::ALL.into_iter().zip([&http, &grpc, &resp, &passing]) {
        place.as_ref().map_or(Ok(()), |place| may_be_open(&place.exposure(name)?))?;
    }
    // Of all secrets the token alone can be taken away while its door is open.
    let exposed = http.as_ref().filter(|_| !insecure_bind);
    let exposed = exposed.map(|place| place.exposure(DoorName::Http)).transpose()?;
    app.metrics().set_store(store.opened.clone());
    #[cfg(feature = "otlp")]
    let telemetry = config.collector.as_ref().map(|url| {
        let counted = app.clone();
        let figures: WithFigures = Arc::new(move |then| counted.with_figures(then));
        Telemetry::start(url, app.metrics(), &figures)
    });
    #[cfg(feature = "otlp")]
    let telemetry = telemetry.transpose().map_err(ServeError::new)?;
    let mut doors_open = OpenDoors::new(app.metrics().clone());
    let (mut sampler, has_grpc) = (None, grpc.is_some());
    if let Some(place) = http {
        sampler = Some(tokio::spawn(Sampler::new(app.clone(), feed.clone()).run()));
        welcome(&place, config.policies.keys().next());
        let http = HttpDoor::new(http::router(app.clone(), feed.clone()), HttpBounds::default());
        doors_open.open(DoorName::Http, place, http);
    }
    if let Some(place) = resp {
        welcome_resp(&place.listener, config.policies.keys().next());
        let resp = RespDoor::new(app.clone(), password, RespBounds::default());
        doors_open.open(DoorName::Resp, place, resp);
    }
    if let Some(place) = grpc {
        welcome_grpc(&place.listener);
        let service = Service::new(app.clone());
        let service = service.map_err(|error| ServeError::new(error.to_string()))?;
        doors_open.open(DoorName::Grpc, place, GrpcDoor::new(service, GrpcBounds::default()));
    }
    if !has_grpc && !config.rls.policies().is_empty() {
        tracing::warn!(
            "rules for Envoy, and no door that it can ask at: say --grpc 127.0.0.1:8081"
        );
    }
    let mut keeper = None;
    if let Some(place) = passing {
        welcome_proxy(&place, config.proxy.as_ref());
        // No secret: the proxy has nothing to administer.
        doors_open.open(DoorName::Proxy, place, ProxyDoor::new(app.clone(), HttpBounds::default()));
        keeper = Some(tokio::spawn(upstreams::keep(upstreams_in_force(app.clone()))));
    }
    let watcher = tokio::spawn(store_watch::watch(app.clone(), store));
    let deadline = config.store.deadline;
    let reloader = Reloader::new(source, app.clone(), config, identity, exposed);
    let reloader = tokio::spawn(reloader.run(hangup));
    let systemd = Notifier::from_env();
    systemd.ready();
    let signal = systemd.alive_during(stop(interrupt, terminate)).await;
    app.drain();
    feed.close();
    systemd.stopping();
    reloader.abort();
    watcher.abort();
    if let Some(sampler) = sampler {
        sampler.abort();
    }
    let notice = match signal {
        // Who sits at the terminal waits for it, and nobody sends clients there.
        Stop::Interrupt => Duration::ZERO,
        Stop::Terminate => app.in_force().rules.drain,
    };
    systemd.alive_during(doors_open.close(notice)).await;
    if let Some(keeper) = keeper {
        keeper.abort();
    }
    give_back(&app.in_force().engine, deadline).await;
    #[cfg(feature = "otlp")]
    if let Some(telemetry) = telemetry {
        telemetry.close().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Opens the store, and builds what is asked over it.
fn built(config: &Config, stores: StoreDrivers) -> Result<(Draft, Watched), ServeError> {
    let choice = &config.store;
    let url = choice.url.read().map_err(|why| ServeError::new(format!("store.url_file: {why}")))?;
    let options = StoreOptions {
        key_prefix: config.key_prefix.clone(),
        deadline: choice.deadline,
        breaker: choice.breaker.clone(),
        ..StoreOptions::default()
    };
    let opened = stores.open(&url.0, &options).map_err(ServeError::new)?;
    let builder = Engine::builder().store(opened.store.clone());
    let builder = match choice.nodes {
        Some(nodes) => builder.nodes(nodes),
        None => builder,
    };
    let adaptive = if opened.store.extensions().is_local() {
        AdaptiveLimits::default()
    } else {
        AdaptiveLimits::shared_over(opened.store.clone())
    };
    let draft = Draft::build(config, builder, adaptive.into(), None).map_err(ServeError::new)?;
    Ok((draft, Watched { opened, name: driver::redacted(&url.0) }))
}

fn told(lines: &[String]) -> String {
    format!("the configuration is wrong:\n{}", lines.join("\n"))
}

fn bounds_of(door: &Listen) -> AcceptBounds {
    let usual = AcceptBounds::default();
    let connections_max = door.connections_max.unwrap_or(usual.connections_max);
    AcceptBounds { connections_max, ..usual }
}

/// What clients of the Redis protocol have to know.
fn password_of(door: &Listen) -> Result<Option<Password>, ServeError> {
    let password = door.password.as_ref().map(|source| match source {
        SecretSource::File(path) => Password::read(path),
        SecretSource::Given(secret) => Ok(Password::new(&secret.0)),
    });
    password.transpose().map_err(ServeError::new)
}

/// Whether a door asks for a secret: gRPC for none but the certificates of its clients.
fn has_secret(door: DoorName, config: &Config, app: &AppState) -> bool {
    let Listens { grpc, resp, .. } = &config.listen;
    match door {
        DoorName::Http => app.in_force().http.admin.is_set(),
        DoorName::Grpc => {
            let tls = grpc.as_ref().and_then(|door| door.tls.as_ref());
            tls.is_some_and(|tls| tls.client_ca.is_some())
        }
        DoorName::Resp => resp.as_ref().is_some_and(|door| door.password.is_some()),
        DoorName::Proxy => false,
    }
}

fn exposure_of(name: DoorName, door: &Listen) -> Exposure {
    Exposure { door: name, address: door.address.clone(), has_tls: door.tls.is_some() }
}

/// Where a door is to be, and what is in front of it.
struct BoundDoor {
    listener: Listener,
    bounds: AcceptBounds,
    proxy_protocol: Option<TrustedPeers>,
    tls: Option<Arc<tls::Acceptor>>,
}

impl BoundDoor {
    fn exposure(&self, door: DoorName) -> Result<Exposure, ServeError> {
        let address = self.listener.address();
        let address = address.map_err(|error| of_socket(door, &error))?;
        Ok(Exposure { door, address, has_tls: self.tls.is_some() })
    }
}

/// The doors that are open.
#[derive(Debug)]
struct OpenDoors {
    metrics: Arc<Metrics>,
    /// Once they are to close: for how long newcomers are served until then.
    stop: watch::Sender<Option<Duration>>,
    servers: JoinSet<()>,
}

impl OpenDoors {
    fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, stop: watch::Sender::default(), servers: JoinSet::new() }
    }

    fn open(&mut self, name: DoorName, place: BoundDoor, door: impl ConnectionHandler + Sync) {
        let BoundDoor { listener, bounds, proxy_protocol, tls } = place;
        let door = Preamble { proxy_protocol, tls, door };
        let door = Counted { door, name, metrics: self.metrics.clone() };
        let mut stopped = self.stop.subscribe();
        self.servers.spawn(async move {
            // An error means that nobody is left to stop it.
            let stop = async {
                let notice = stopped.wait_for(Option::is_some).await;
                notice.ok().and_then(|notice| *notice).unwrap_or_default()
            };
            accept(listener, door, bounds, stop).await;
        });
    }

    /// All at once, and waits for the last request of each.
    async fn close(mut self, notice: Duration) {
        self.stop.send_replace(Some(notice));
        while self.servers.join_next().await.is_some() {}
    }
}

/// A door whose connections are counted.
#[derive(Clone, Debug)]
struct Counted<D> {
    door: D,
    name: DoorName,
    metrics: Arc<Metrics>,
}

impl<D: ConnectionHandler + Sync> ConnectionHandler for Counted<D> {
    async fn serve(self, stream: Stream, peer: Peer, shutdown: Shutdown) {
        let _connected = self.metrics.connected(self.name);
        self.door.serve(stream, peer, shutdown).await;
    }
}

/// Gives leases back, so that others can have what is left of them. What is not on its way within a deadline of the
/// store never will be: leases end by themselves.
async fn give_back(engine: &Engine, deadline: Duration) {
    if engine.lease_stats().keys > 0 {
        engine.release_leases();
        tokio::time::sleep(deadline).await;
    }
}

/// The place of a door that is to be open: the socket that was handed over for it, or a new one; and what it speaks over
/// TLS.
async fn open(
    name: DoorName,
    door: Option<&Listen>,
    protocols: &'static [&'static [u8]],
    app: &Arc<AppState>,
    sockets: &mut Sockets,
) -> Result<Option<BoundDoor>, ServeError> {
    let handed = sockets.take(name.as_str()).transpose();
    let handed = handed.map_err(|error| of_socket(name, &error))?;
    let Some(door) = door else {
        let bare = |listener| BoundDoor {
            listener,
            bounds: AcceptBounds::default(),
            proxy_protocol: None,
            tls: None,
        };
        return Ok(handed.map(bare));
    };
    let tls = door.tls.as_ref().map(|files| tls::Acceptor::new(files.clone(), protocols));
    let tls = tls.transpose().map_err(ServeError::new)?;
    let proxy_protocol = door.proxy_protocol.then(|| trusted_proxies(app.clone()));
    let listener = if let Some(listener) = handed {
        listener
    } else {
        let bound = Listener::bind(&door.address).await;
        bound.map_err(|error| not_bound(&door.address, &error))?
    };
    Ok(Some(BoundDoor { listener, bounds: bounds_of(door), proxy_protocol, tls }))
}

/// The upstreams that the configuration in force names.
fn upstreams_in_force(app: Arc<AppState>) -> impl Fn() -> Option<Arc<Upstreams>> {
    move || app.in_force().proxy.clone()
}

/// The networks whose PROXY protocol is believed, as the configuration in force names them.
fn trusted_proxies(app: Arc<AppState>) -> TrustedPeers {
    TrustedPeers(Arc::new(move |ip| {
        app.in_force().rules.trusted_proxies.iter().any(|network| network.contains(ip))
    }))
}

fn of_socket(name: DoorName, error: &io::Error) -> ServeError {
    ServeError::new(format!("the socket for `{}`: {error}", name.as_str()))
}

/// Who has told the process to stop.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// Somebody at a terminal.
    Interrupt,
    /// Whatever manages services.
    Terminate,
}

/// Ready when the process is told to stop.
async fn stop(mut interrupt: Signal, mut terminate: Signal) -> Stop {
    let stop = tokio::select! {
        _ = interrupt.recv() => Stop::Interrupt,
        _ = terminate.recv() => Stop::Terminate,
    };
    tracing::info!("stopping: finishing the requests in flight");
    stop
}

fn on(kind: SignalKind) -> Result<Signal, ServeError> {
    signal(kind).map_err(|error| ServeError::new(format!("cannot watch for signals: {error}")))
}

fn welcome(place: &BoundDoor, policy: Option<&String>) {
    let Ok(addr) = place.listener.address() else { return };
    tracing::info!(%addr, "listening");
    let scheme = if place.tls.is_some() { "https" } else { "http" };
    // Where there is no policy yet, what there will be can be looked at.
    let check = policy.map_or_else(
        || "/v1/policies".to_owned(),
        |policy| {
            format!("/v1/check -d '{{\"policy\":\"{}\",\"key\":\"user-42\"}}'", printable(policy))
        },
    );
    let text = match &addr {
        Address::Unix(path) => format!(
            "tidegate listens on {addr}\n\
             try it:  curl -s --unix-socket {} http://tidegate{check}\n\
             Ctrl-C stops it\n",
            path.display()
        ),
        Address::Tcp(addr) => format!(
            "tidegate listens on {scheme}://{addr}\n\
             try it:  curl -s {scheme}://{addr}{check}\n\
             or open  {scheme}://{addr}/ in a browser; Ctrl-C stops it\n"
        ),
    };
    say(&text);
}

fn say(text: &str) {
    // Nobody has to read it.
    let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
}

fn welcome_resp(listener: &Listener, policy: Option<&String>) {
    let Ok(addr) = listener.address() else { return };
    tracing::info!(%addr, "listening for the Redis protocol");
    // A limit of its own needs no policy.
    let ask = policy.map_or_else(
        || "CL.THROTTLE user-42 15 30 60".to_owned(),
        |policy| format!("TG.CHECK {} user-42", printable(policy)),
    );
    let place = match &addr {
        Address::Unix(path) => format!("-s {}", path.display()),
        Address::Tcp(addr) => format!("-h {} -p {}", addr.ip(), addr.port()),
    };
    say(&format!("and the Redis protocol on {addr}:  redis-cli {place} {ask}\n"));
}

fn welcome_grpc(listener: &Listener) {
    let Ok(addr) = listener.address() else { return };
    tracing::info!(%addr, "listening for gRPC");
    say(&format!("for Envoy: gRPC on {addr}\n"));
}

fn welcome_proxy(place: &BoundDoor, settings: Option<&tidegate_config::proxy::Settings>) {
    let Ok(addr) = place.listener.address() else { return };
    tracing::info!(%addr, "listening for requests to pass on");
    let scheme = if place.tls.is_some() { "https" } else { "http" };
    let upstreams = settings.iter().flat_map(|settings| &settings.upstreams);
    let upstreams: Vec<_> = upstreams.map(ToString::to_string).collect();
    let place = match &addr {
        Address::Unix(_) => addr.to_string(),
        Address::Tcp(addr) => format!("{scheme}://{addr}"),
    };
    say(&format!("tidegate passes requests on from {place} to {}\n", upstreams.join(", ")));
}

fn not_bound(addr: &Address, error: &io::Error) -> ServeError {
    ServeError::new(match error.kind() {
        io::ErrorKind::AddrInUse if matches!(addr, Address::Unix(_)) => format!(
            "cannot listen on {addr}: something is there already, a program that listens (`ss -lx` shows which) or a file that is no socket. Stop it, or take another path"
        ),
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {addr}: another program listens there already (`ss -ltnp` shows which). Stop it, or take any free port with --listen 127.0.0.1:0"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "cannot listen on {addr}: {error}. Ports below 1024 need a privilege; take another with --listen"
        ),
        _ => format!("cannot listen on {addr}: {error}"),
    })
}
