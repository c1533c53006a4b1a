//! Reloads the configuration while the server runs: on SIGHUP, and when a file changes.
//!
//! A configuration with any error is refused as a whole, and the old one stays in force. Counters are in the store and
//! are not changed: a reload refunds nothing.

mod identity;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

pub(crate) use self::identity::Identity;
use super::exposure;
use crate::net::tls::Acceptor;
use crate::service::{AppState, Draft};
use tidegate_config::{Config, Door, Exposure, Listener};

/// How often the files are checked. A change is loaded once they have stayed the same for as long.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Where a configuration is read from, at the start and on every reload.
pub struct Source {
    /// The files and folders that are watched for changes; empty for the demo.
    pub files: Vec<PathBuf>,
    /// Where the configuration comes from, in words.
    pub origin: String,
    /// What is in force, in lines for the log at the start.
    pub notes: Vec<String>,
    /// Reads the files and applies the command line on top; fails with a list of all problems.
    pub read: Box<dyn Fn() -> Result<Config, Vec<String>> + Send + Sync>,
}

/// Installs each new configuration.
pub(crate) struct Reloader {
    source: Arc<Source>,
    app: Arc<AppState>,
    /// The configuration at the start. Some of its keys apply only at a start.
    running: Config,
    loaded: Identity,
    /// The door that needs the admin token, unless `--insecure-bind` allows it without one.
    exposed: Option<Exposure>,
    insecure_bind: bool,
}

impl Reloader {
    /// `before` is the identity of the files before they were read, so that no change in between is missed.
    pub(crate) fn new(
        source: Source,
        app: Arc<AppState>,
        running: Config,
        before: Identity,
        exposed: Option<Exposure>,
        insecure_bind: bool,
    ) -> Self {
        Self { source: Arc::new(source), app, running, loaded: before, exposed, insecure_bind }
    }

    /// Never returns. If it is cancelled, the configuration in force stays.
    pub(crate) async fn run(mut self, mut hangup: Signal) {
        let mut interval = tokio::time::interval(CHECK_INTERVAL);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_seen = self.loaded.clone();
        loop {
            tokio::select! {
                _ = hangup.recv() => {
                    self.loaded = self.current_identity().await;
                    self.reload("SIGHUP").await;
                    last_seen.clone_from(&self.loaded);
                }
                _ = interval.tick() => {
                    let seen = self.current_identity().await;
                    let (is_new, is_stable) = (seen != self.loaded, seen == last_seen);
                    if is_new && is_stable {
                        self.loaded.clone_from(&seen);
                        self.reload("the file has changed").await;
                    }
                    last_seen = seen;
                }
            }
        }
    }

    async fn current_identity(&self) -> Identity {
        let source = self.source.clone();
        // A file system may hang, and must not delay requests.
        let read = tokio::task::spawn_blocking(move || Identity::read(&source.files));
        // Fails only when the runtime shuts down.
        read.await.unwrap_or_else(|_| self.loaded.clone())
    }

    async fn reload(&self, why: &str) {
        if self.source.files.is_empty() {
            tracing::info!("{why}, and there is no configuration file to read again");
            return;
        }
        // All files are named: they are read together, whichever has changed.
        let files = self.source.files.iter().map(|file| file.display().to_string());
        let file = files.collect::<Vec<_>>().join(", ");
        match self.next().await {
            Ok(draft) => {
                self.app.service().install(draft);
                self.app.metrics().reloaded(true);
                tracing::info!(%file, "{why}: the new configuration is in force");
            }
            Err(problems) => {
                self.app.metrics().reloaded(false);
                for problem in problems {
                    tracing::error!("{problem}");
                }
                tracing::error!(%file, "{why}: refused, the old configuration stays in force");
            }
        }
    }

    /// Reads the files, builds the configuration and checks it. Does not put it in force.
    async fn next(&self) -> Result<Draft, Vec<String>> {
        let source = self.source.clone();
        let read = tokio::task::spawn_blocking(move || (source.read)()).await;
        let read = read.map_err(|error| vec![error.to_string()])?;
        let config = read?;
        let before = self.app.in_force();
        let (builder, adaptive) = (before.engine.successor(), before.adaptive.clone());
        let mut draft = Draft::build(&config, builder, adaptive, Some(&before))
            .map_err(|problem| vec![problem])?;
        draft.check(self.exposed.as_ref()).map_err(|problem| vec![problem])?;
        check_start(&self.running, &config, self.insecure_bind).map_err(|problem| vec![problem])?;
        draft.needs_restart(needs_restart(&self.running, &config));
        Ok(draft)
    }
}

/// Refuses changed doors and a changed store that the next start would refuse.
fn check_start(running: &Config, next: &Config, insecure_bind: bool) -> Result<(), String> {
    let is_changed =
        |(door, listener): &(&Door, &Listener)| running.listen.get(door) != Some(listener);
    for (door, listener) in next.listen.iter().filter(is_changed) {
        if !insecure_bind {
            exposure(*door, listener).allow(door.has_secret(next))?;
        }
        if let Some(files) = &listener.tls {
            Acceptor::new(files.clone(), door.alpn())?;
        }
        if let Some(password) = &listener.password {
            password.read().map_err(|why| format!("{}.password_file: {why}", door.listen_key()))?;
        }
    }
    if running.store.url != next.store.url {
        next.store.url.read().map_err(|why| format!("store.url_file: {why}"))?;
    }
    if let Some(quorum) =
        next.store.quorum.as_ref().filter(|_| running.store.quorum != next.store.quorum)
    {
        quorum.read().map_err(|why| format!("store.quorum_file: {why}"))?;
    }
    if running.store.hash_key != next.store.hash_key {
        next.store.hasher()?;
    }
    Ok(())
}

/// The changed keys that are only read at the start.
fn needs_restart(running: &Config, next: &Config) -> impl Iterator<Item = &'static str> {
    let store = &running.store;
    let changed = [
        ("store.url", store.url != next.store.url),
        ("store.quorum", store.quorum != next.store.quorum),
        ("store.deadline", store.deadline != next.store.deadline),
        ("store.breaker", store.breaker != next.store.breaker),
        ("store.nodes", store.nodes != next.store.nodes),
        ("store.hash_keys", store.hash_keys != next.store.hash_keys),
        ("store.hash_key_file", store.hash_key != next.store.hash_key),
        ("store.snapshot", store.memory.snapshot != next.store.memory.snapshot),
        ("store.every", store.snapshot_every != next.store.snapshot_every),
        ("store.max_bytes", store.memory.max_bytes != next.store.memory.max_bytes),
        ("key_prefix", running.key_prefix != next.key_prefix),
        ("telemetry.otlp", running.collector != next.collector),
    ];
    let (listen, next) = (running.listen.clone(), next.listen.clone());
    let doors = Door::ALL.into_iter();
    let doors = doors.map(move |door| (door.listen_key(), listen.get(&door) != next.get(&door)));
    let changed = changed.into_iter().chain(doors);
    changed.filter(|(_, is_changed)| *is_changed).map(|(field, _)| field)
}
