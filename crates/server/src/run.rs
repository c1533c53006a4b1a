//! Starts the server: opens the store and the doors, and closes them on shutdown.

mod named_files;
mod quorum_watch;
mod reload;
mod snapshots;
mod store_watch;
mod systemd;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Engine, HashedKeys, KeyHasher, Store};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use self::named_files::NamedFiles;
pub use self::reload::Source;
use self::reload::{Identity, Reloader};
use self::store_watch::WatchedStore;
use self::systemd::{Notifier, Sockets};
use crate::adaptive::AdaptiveLimits;
use crate::dashboard::{Feed, Sampler};
use crate::doors::grpc::GrpcDoor;
use crate::doors::http::HttpDoor;
use crate::doors::proxy::ProxyDoor;
use crate::doors::resp::RespDoor;
use crate::doors::{DoorContext, OpenDoor};
use crate::logs::KeyLabels;
#[cfg(feature = "otlp")]
use crate::metrics::WithFigures;
use crate::metrics::{Metrics, StoreRole};
use crate::net::{
    AcceptBounds, Client, Clients, ConnectionHandler, Listener, OnRefused, Preamble, Shutdown,
    Stream, TrustedPeers, accept, tls,
};
use crate::service::{AppState, Draft, InForce};
#[cfg(feature = "otlp")]
use crate::telemetry::Telemetry;
use crate::upstreams::{self, Upstreams};
use tidegate::driver::{self, MemoryOptions, OpenStore, StoreDriver, StoreDrivers, StoreOptions};
use tidegate_config::{self as config, Address, Config, Door, Exposure};

/// Why a server did not start, as text for the operator.
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

/// Serves a configuration until the process is asked to stop.
pub fn serve(source: Source, insecure_bind: bool, stores: StoreDrivers) -> Result<(), ServeError> {
    // Before any other thread starts: `from_env` removes the variables that it reads from the environment.
    let sockets = Sockets::from_env().map_err(ServeError::new)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| ServeError::new(format!("cannot start: {error}")))?;
    let served = runtime.block_on(until_stopped(source, insecure_bind, stores, sockets));
    // Only file reads and name lookups that hang are still running, and their results are not needed.
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
    let identity = Identity::read(&source.files);
    let config = (source.read)().map_err(|lines| ServeError::new(join_problems(&lines)))?;
    let hasher = config.store.hasher().map_err(ServeError::new)?;
    let (draft, store, stores_to_watch) = build_service(&config, stores, hasher.as_ref())?;
    log_start(&source, &stores_to_watch);
    let labels = KeyLabels::new(hasher, config.store.hash_keys);
    let (app, feed) = (AppState::with_labels(draft, labels), Arc::<Feed>::default());
    let may_be_open = |exposure: &Exposure| match exposure.allow(exposure.door.has_secret(&config))
    {
        Err(why) if !insecure_bind => Err(ServeError::new(why)),
        _ => Ok(()),
    };
    for (door, listener) in &config.listen {
        may_be_open(&exposure(*door, listener))?;
    }
    if let Some(snapshots) = store.snapshots() {
        snapshots::log_restored(snapshots);
        // Restored overrides hold from the first request on. The memory store answers at once.
        let engine = app.in_force().engine.clone();
        let _ = engine.overrides().refresh().await;
        store_watch::ReadableOverrides::default().see(engine.overrides().readable());
    }
    // Handlers are installed before the server is reachable, so that no signal is lost.
    let interrupt = watch_signal(SignalKind::interrupt())?;
    let terminate = watch_signal(SignalKind::terminate())?;
    let hangup = watch_signal(SignalKind::hangup())?;
    // All addresses are bound before the first connection is accepted: the server starts whole or not at all.
    let mut bound = Vec::new();
    for door in Door::ALL {
        if let Some(it) = bind(door, config.listen.get(&door), &app, &mut sockets).await? {
            // Checked again with the bound address: systemd may have bound the socket elsewhere.
            let exposure = it.exposure(door)?;
            may_be_open(&exposure)?;
            if door == Door::Proxy {
                refuse_own_address(&config, &exposure.address)?;
            }
            bound.push((door, it));
        }
    }
    // The admin token is the only secret that a reload can remove while its door is open.
    let exposed = bound.iter().find(|(door, _)| *door == Door::Http && !insecure_bind);
    let exposed = exposed.map(|(door, bound)| bound.exposure(*door)).transpose()?;
    let snapshots = store.snapshots().cloned();
    app.metrics().set_store(store);
    #[cfg(feature = "otlp")]
    let telemetry = config.collector.as_ref().map(|url| {
        let counted = app.clone();
        let figures: WithFigures = Arc::new(move |then| counted.with_figures(then));
        Telemetry::start(url, app.metrics(), &figures)
    });
    #[cfg(feature = "otlp")]
    let telemetry = telemetry.transpose().map_err(ServeError::new)?;
    let open: Vec<Door> = bound.iter().map(|(door, _)| *door).collect();
    let is_open = |door| open.contains(&door);
    warn_of_gaps(&config, &open);
    // The first sample is taken before a watcher can connect, so that every watcher gets a snapshot.
    let sampler = is_open(Door::Http).then(|| Sampler::new(app.clone(), feed.clone()));
    let mut doors = OpenDoors::new(app.metrics().clone());
    let context = DoorContext { app: &app, feed: &feed, config: &config };
    for (door, bound) in bound {
        open_door(door, bound, &mut doors, &context)?;
    }
    // These tasks run until the last request has ended.
    let mut until_closed = JoinSet::new();
    if is_open(Door::Proxy) {
        until_closed.spawn(upstreams::keep(upstreams_in_force(app.clone())));
    }
    let deadline = config.store.deadline;
    let mut until_stopped = JoinSet::new();
    if let Some(snapshots) = &snapshots {
        until_stopped.spawn(snapshots::keep(snapshots.clone(), config.store.snapshot_every));
    }
    if let Some(sampler) = sampler {
        until_stopped.spawn(sampler.run());
    }
    for store in stores_to_watch {
        until_stopped.spawn(store_watch::watch(app.clone(), store));
    }
    let reloader = Reloader::new(source, app.clone(), config, identity, exposed, insecure_bind);
    until_stopped.spawn(reloader.run(hangup));
    let systemd = Notifier::from_env();
    systemd.ready();
    let signal = systemd.alive_during(stop(interrupt, terminate)).await;
    app.drain();
    feed.close();
    systemd.stopping();
    until_stopped.abort_all();
    systemd.alive_during(doors.close(drain_time(signal, &app))).await;
    until_closed.abort_all();
    return_leases(&app.in_force(), deadline).await;
    if let Some(snapshots) = snapshots {
        // The last request has ended, so that nothing is missing.
        systemd.alive_during(snapshots::save(snapshots)).await;
    }
    #[cfg(feature = "otlp")]
    if let Some(telemetry) = telemetry {
        telemetry.close().await;
    }
    tracing::info!("stopped");
    Ok(())
}

/// Logs what is served, from where.
fn log_start(source: &Source, stores: &[WatchedStore]) {
    // What is left out of a URL may be a secret; of memory there is nothing to leave out.
    let names: Vec<&str> = stores.iter().map(|watched| watched.url.trim_end_matches('…')).collect();
    tracing::info!(store = names.join(", "), configuration = source.origin, "starting");
    source.notes.iter().for_each(|note| tracing::info!("{note}"));
}

/// Warns of what is configured without an effect, or missing.
fn warn_of_gaps(config: &Config, open: &[Door]) {
    let sheds = config.proxy.as_ref().is_some_and(|proxy| proxy.in_flight.is_some());
    if open.contains(&Door::Proxy) && config.doors.routes.is_empty() && !sheds {
        tracing::warn!(
            "no limit is set: every request passes; --limit 240/min sets one, in a file `policies` with `routes`"
        );
    }
    if !open.contains(&Door::Grpc) && !config.rls.policies().is_empty() {
        tracing::warn!(
            "rules for Envoy are configured, but no gRPC door is open: pass --grpc 127.0.0.1:8081"
        );
    }
}

/// How long new connections are still served after a signal to stop.
fn drain_time(signal: Stop, app: &AppState) -> Duration {
    let drain = match signal {
        // The server runs in a terminal: the user waits, and no load balancer sends clients.
        Stop::Interrupt => Duration::ZERO,
        // Whoever sends clients hears of the stop at the same time, or later: Kubernetes removes the address while the
        // process gets its signal, and a load balancer polls.
        Stop::Terminate => app.in_force().rules.drain,
    };
    let drain_ms = u64::try_from(drain.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(
        drain_ms,
        "stopping: new connections are served for as long as `drain`, then the requests in flight are finished"
    );
    drain
}

/// Opens a door with the type that implements it.
fn open_door(
    door: Door,
    bound: BoundDoor,
    doors: &mut OpenDoors,
    context: &DoorContext<'_>,
) -> Result<(), ServeError> {
    match door {
        Door::Http => doors.open::<HttpDoor>(door, bound, context),
        Door::Resp => doors.open::<RespDoor>(door, bound, context),
        Door::Grpc => doors.open::<GrpcDoor>(door, bound, context),
        Door::Proxy => doors.open::<ProxyDoor>(door, bound, context),
    }
}

/// Opens the store and builds the service over it.
fn build_service(
    config: &Config,
    stores: StoreDrivers,
    hasher: Option<&KeyHasher>,
) -> Result<(Draft, OpenStore, Vec<WatchedStore>), ServeError> {
    let choice = &config.store;
    let url = choice.url.read().map_err(|why| ServeError::new(format!("store.url_file: {why}")))?;
    let usual = StoreOptions::default();
    let options = StoreOptions {
        key_prefix: config.key_prefix.clone(),
        hasher: hasher.cloned().unwrap_or(usual.hasher),
        deadline: choice.deadline,
        breaker: choice.breaker.clone(),
        memory: choice.memory.clone(),
        ..usual
    };
    choice.check_memory(stores, &url.0).map_err(ServeError::new)?;
    let mut opened = stores.open(&url.0, &options).map_err(ServeError::new)?;
    let watched = |role, opened: &OpenStore, url: &str| WatchedStore {
        role,
        opened: opened.clone(),
        url: driver::redacted(url).into(),
    };
    let mut stores_to_watch = vec![watched(StoreRole::Main, &opened, &url.0)];
    if let Some(quorum) = &choice.quorum {
        let url =
            quorum.read().map_err(|why| ServeError::new(format!("store.quorum_file: {why}")))?;
        let is_quorum = stores.find(&url.0).is_ok_and(StoreDriver::is_quorum);
        if !is_quorum {
            let why =
                "store.quorum_file: expected the URL of a quorum, as in redis+quorum://h1,h2,h3";
            return Err(ServeError::new(why));
        }
        // Nodes are counted in the main store.
        let options =
            StoreOptions { announces: false, memory: MemoryOptions::default(), ..options };
        let second = stores.open(&url.0, &options).map_err(ServeError::new)?;
        stores_to_watch.push(watched(StoreRole::Quorum, &second, &url.0));
        opened = OpenStore::routed(opened, second);
    }
    let store: Arc<dyn Store> = match hasher.filter(|_| choice.hash_keys) {
        Some(hasher) => Arc::new(HashedKeys::new(opened.store.clone(), hasher.clone())),
        None => opened.store.clone(),
    };
    let builder = Engine::builder().store(store);
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
    Ok((draft, opened, stores_to_watch))
}

/// Refuses an upstream that is the proxy itself. If a name hides that, a request is noticed when it comes back.
fn refuse_own_address(config: &Config, own: &Address) -> Result<(), ServeError> {
    let mut upstreams = config.proxy.iter().flat_map(|settings| &settings.upstreams);
    match upstreams.find(|upstream| upstream.is_at(own)) {
        Some(upstream) => Err(ServeError::new(format!(
            "the upstream {upstream} is the address of this proxy: no request would arrive at a site. Give the site's \
             address (--upstream, in a file `proxy.upstream`), or listen elsewhere (--listen, `listen.proxy`)"
        ))),
        None => Ok(()),
    }
}

fn join_problems(lines: &[String]) -> String {
    format!("the configuration is wrong:\n{}", lines.join("\n"))
}

fn bounds(listener: &config::Listener) -> AcceptBounds {
    let usual = AcceptBounds::default();
    let connections_max = listener.connections_max.unwrap_or(usual.connections_max);
    AcceptBounds { connections_max, ..usual }
}

fn exposure(door: Door, listener: &config::Listener) -> Exposure {
    Exposure { door, address: listener.address.clone(), has_tls: listener.tls.is_some() }
}

/// The listener of a door, its bounds, and the layers in front of the door.
struct BoundDoor {
    listener: Listener,
    bounds: AcceptBounds,
    clients: Arc<Clients>,
    proxy_protocol: Option<TrustedPeers>,
    tls: Option<Arc<tls::Acceptor>>,
}

impl BoundDoor {
    fn exposure(&self, door: Door) -> Result<Exposure, ServeError> {
        let address = self.listener.address();
        let address = address.map_err(|error| bad_socket(door, &error))?;
        Ok(Exposure { door, address, has_tls: self.tls.is_some() })
    }
}

/// The open doors.
#[derive(Debug)]
struct OpenDoors {
    metrics: Arc<Metrics>,
    /// Set when the doors have to close: for how long new connections are still served.
    stop: watch::Sender<Option<Duration>>,
    servers: JoinSet<()>,
}

impl OpenDoors {
    fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, stop: watch::Sender::default(), servers: JoinSet::new() }
    }

    /// Builds a door, logs and prints its address, and serves it.
    fn open<D: OpenDoor>(
        &mut self,
        name: Door,
        bound: BoundDoor,
        context: &DoorContext<'_>,
    ) -> Result<(), ServeError> {
        let door = D::build(context).map_err(ServeError::new)?;
        let BoundDoor { listener, bounds, clients, proxy_protocol, tls } = bound;
        if let Ok(addr) = listener.address() {
            tracing::info!(%addr, "{}", D::LISTENING);
            let scheme = if tls.is_some() { "https" } else { "http" };
            let text = D::welcome(&addr, scheme, context.config);
            // A closed standard output is no reason to fail.
            let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
        }
        let app = context.app.clone();
        let on_refused =
            OnRefused(Arc::new(move |peer| app.service().refused_connection(name, peer)));
        let door = Preamble { proxy_protocol, tls, clients, on_refused, door };
        let door = Counted { door, name, metrics: self.metrics.clone() };
        let mut stopped = self.stop.subscribe();
        self.servers.spawn(async move {
            // An error means that the sender was dropped: stop at once.
            let stop = async {
                let notice = stopped.wait_for(Option::is_some).await;
                notice.ok().and_then(|notice| *notice).unwrap_or_default()
            };
            accept(listener, door, bounds, stop).await;
        });
        Ok(())
    }

    /// Closes all doors at the same time, and waits for their last requests.
    async fn close(mut self, notice: Duration) {
        self.stop.send_replace(Some(notice));
        while self.servers.join_next().await.is_some() {}
    }
}

/// A door whose connections are counted.
#[derive(Clone, Debug)]
struct Counted<D> {
    door: D,
    name: Door,
    metrics: Arc<Metrics>,
}

impl<D: ConnectionHandler + Sync> ConnectionHandler for Counted<D> {
    async fn serve(self, stream: Stream, client: Client, shutdown: Shutdown) {
        let _connected = self.metrics.connected(self.name);
        self.door.serve(stream, client, shutdown).await;
    }
}

/// Returns leases and places, so that other nodes can use what is left of them. Waits for one deadline of the store and not
/// for replies: what is not returned expires.
async fn return_leases(in_force: &InForce, deadline: Duration) {
    let places = in_force.in_flight.as_ref().map_or(0, |bound| bound.release_spare());
    let leased = in_force.engine.lease_stats().keys;
    if leased > 0 {
        in_force.engine.release_leases();
    }
    if leased > 0 || places > 0 {
        tokio::time::sleep(deadline).await;
    }
}

/// Binds a configured door: to the socket that systemd passed for it, or to a new one. `None` if there is neither.
async fn bind(
    door: Door,
    listener: Option<&config::Listener>,
    app: &Arc<AppState>,
    sockets: &mut Sockets,
) -> Result<Option<BoundDoor>, ServeError> {
    let passed = sockets.take(door).transpose().map_err(|error| bad_socket(door, &error))?;
    let Some(options) = listener else {
        let (bounds, proxy_protocol, tls) = (AcceptBounds::default(), None, None);
        let clients = clients(app, config::PerClient::default(), bounds);
        let bound = |listener| BoundDoor { listener, bounds, clients, proxy_protocol, tls };
        return Ok(passed.map(bound));
    };
    let tls = options.tls.as_ref().map(|files| tls::Acceptor::new(files.clone(), door.alpn()));
    let tls = tls.transpose().map_err(ServeError::new)?;
    let proxy_protocol = options.proxy_protocol.then(|| trusted_proxies(app.clone()));
    let listener = if let Some(listener) = passed {
        listener
    } else {
        let bound = Listener::bind(&options.address).await;
        bound.map_err(|error| not_bound(&options.address, &error))?
    };
    let bounds = bounds(options);
    let clients = clients(app, options.per_client, bounds);
    Ok(Some(BoundDoor { listener, bounds, clients, proxy_protocol, tls }))
}

/// The clients of a door, who share its connections.
fn clients(
    app: &Arc<AppState>,
    per_client: config::PerClient,
    bounds: AcceptBounds,
) -> Arc<Clients> {
    let app = app.clone();
    let identify = move |ip| {
        let client_ip = &app.in_force().http.client_ip;
        (!client_ip.trusts(ip)).then(|| client_ip.name(ip))
    };
    Clients::new(Arc::new(identify), per_client.of(bounds.connections_max))
}

/// The upstreams of the configuration in force.
fn upstreams_in_force(app: Arc<AppState>) -> impl Fn() -> Option<Arc<Upstreams>> {
    move || app.in_force().proxy.clone()
}

/// The networks whose PROXY protocol headers are trusted by the configuration in force.
fn trusted_proxies(app: Arc<AppState>) -> TrustedPeers {
    TrustedPeers(Arc::new(move |ip| {
        let in_force = app.in_force();
        let is_trusted = in_force.rules.trusted_proxies.iter().any(|network| network.contains(ip));
        if !is_trusted {
            app.service().events().untrusted_balancer(ip);
        }
        is_trusted
    }))
}

fn bad_socket(door: Door, error: &io::Error) -> ServeError {
    ServeError::new(format!("the socket for `{}`: {error}", door.as_str()))
}

/// The signal that stopped the process.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// SIGINT, from a terminal.
    Interrupt,
    /// SIGTERM, from a service manager.
    Terminate,
}

/// Ready when the process gets SIGINT or SIGTERM.
async fn stop(mut interrupt: Signal, mut terminate: Signal) -> Stop {
    tokio::select! {
        _ = interrupt.recv() => Stop::Interrupt,
        _ = terminate.recv() => Stop::Terminate,
    }
}

fn watch_signal(kind: SignalKind) -> Result<Signal, ServeError> {
    signal(kind).map_err(|error| ServeError::new(format!("cannot watch for signals: {error}")))
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
