//! The files that a configuration names, read as a start reads them, for `tidegate validate`.

use std::io::ErrorKind;
use std::path::Path;

use tidegate::driver::StoreDrivers;
use tidegate::store_kit::open_file;
use tidegate_config::plan::{Follows, Source};
use tidegate_config::proxy::Target;
use tidegate_config::{Config, Door, Listener, SecretSource};

use crate::net::client_tls::Tls;
use crate::net::tls::Acceptor;
use crate::service::{AdminToken, RefusalRules};

/// What a start would say about the files that a configuration names: messages, each with the names of its key.
#[derive(Debug, Default)]
pub struct NamedFiles {
    /// A server with this configuration does not start.
    pub refused: Vec<(Vec<String>, String)>,
    /// These are not on this machine, or closed to this user.
    pub unread: Vec<(Vec<String>, String)>,
    /// A server starts, and there is probably a mistake.
    pub doubtful: Vec<(Vec<String>, String)>,
}

impl NamedFiles {
    /// Reads the files, and starts nothing.
    pub fn read(config: &Config, stores: StoreDrivers) -> Self {
        let mut files = Self::default();
        files.of_store(config, stores);
        for (door, listener) in &config.listen {
            files.of_door(*door, listener);
        }
        files.of_callers(config);
        files.of_proxy(config);
        files.of_policies(config);
        files
    }

    fn of_store(&mut self, config: &Config, stores: StoreDrivers) {
        let choice = &config.store;
        let url = |url: &str| stores.check(url);
        self.secret(&["store"], "url_file", Some(&choice.url), url);
        self.secret(&["store"], "quorum_file", choice.quorum.as_ref(), url);
        let hasher = |_: &str| choice.hasher().map(drop);
        self.secret(&["store"], "hash_key_file", choice.hash_key.as_ref(), hasher);
    }

    fn of_door(&mut self, door: Door, listener: &Listener) {
        let section = ["listen", door.as_str()];
        self.secret(&section, "password_file", listener.password.as_ref(), |_| Ok(()));
        if let Some(tls) = &listener.tls {
            let client_ca = tls.client_ca.as_ref().map(|path| ("client_ca", path.as_path()));
            let files = [("cert", tls.cert.as_path()), ("key", tls.key.as_path())];
            let files: Vec<_> = files.into_iter().chain(client_ca).collect();
            let load = || Acceptor::new(tls.clone(), door.alpn()).map(drop);
            self.check(&[&section[..], &["tls"]].concat(), &files, load);
        }
    }

    fn of_callers(&mut self, config: &Config) {
        let admin = config.doors.admin_token.as_ref();
        self.secret(&["admin"], "token_file", admin, |token| {
            let file = admin.map(ToString::to_string).unwrap_or_default();
            AdminToken::new(token).map(drop).map_err(|why| format!("{file} {why}"))
        });
        if let Some(keys) = &config.doors.token_keys {
            self.check(&["jwt"], &[keys.file()], || keys.read().map(drop));
        }
    }

    fn of_proxy(&mut self, config: &Config) {
        let Some(proxy) = &config.proxy else { return };
        if let Some(ca) = &proxy.ca_file
            && proxy.upstreams.iter().any(Target::is_tls)
        {
            let load = || Tls::new(Some(ca), "proxy.ca_file").map(drop);
            self.check(&["proxy"], &[("ca_file", ca)], load);
        }
        if let Some(page) = &proxy.refusal.page {
            let mut warning = None;
            let load = || {
                warning = RefusalRules::from_settings(&proxy.refusal)?.warning();
                Ok(())
            };
            let section = ["proxy", "refusal"];
            self.check(&section, &[("page", page)], load);
            self.doubtful.extend(warning.map(|why| (key(&section, Some("page")), why)));
        }
    }

    /// Of the sources that limits follow.
    fn of_policies(&mut self, config: &Config) {
        for plan in &config.plans {
            let Follows::Signals(signals) = &plan.follows else { continue };
            let section = ["policies", &plan.policy, "adaptive"];
            for signal in &signals.each {
                let Source::Asked(ask) = &signal.source else { continue };
                self.secret(&section, "token_file", ask.token.as_ref(), |_| Ok(()));
                if let Some(ca) = &ask.ca_file {
                    let load = || Tls::new(Some(ca), "ca_file").map(drop);
                    self.check(&section, &[("ca_file", ca)], load);
                }
            }
        }
    }

    /// Reads a secret, if it is in a file, and checks it.
    fn secret(
        &mut self,
        section: &[&str],
        name: &str,
        source: Option<&SecretSource>,
        check: impl FnOnce(&str) -> Result<(), String>,
    ) {
        let Some(source @ SecretSource::File(path)) = source else { return };
        self.check(section, &[(name, path)], || check(&source.read()?.0));
    }

    /// Notes the files of a section that cannot be opened, or what is wrong with them together.
    fn check(
        &mut self,
        section: &[&str],
        files: &[(&str, &Path)],
        load: impl FnOnce() -> Result<(), String>,
    ) {
        let unread_before = self.unread.len();
        for (name, path) in files {
            let closed = [ErrorKind::NotFound, ErrorKind::PermissionDenied];
            if let Err(error) = open_file(path)
                && closed.contains(&error.kind())
            {
                let key = key(section, Some(name));
                let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
                let (at, path) = (key.join("."), path.display());
                let why = format!("{at}: {path} was not read, and a start needs it: {error}");
                self.unread.push((key, why));
            }
        }
        if self.unread.len() > unread_before {
            return;
        }
        if let Err(why) = load() {
            let only = if let [(name, _)] = files { Some(*name) } else { None };
            let key = key(section, only);
            let at = key.join(".");
            let why = if why.starts_with(&at) { why } else { format!("{at}: {why}") };
            self.refused.push((key, why));
        }
    }
}

fn key(section: &[&str], name: Option<&str>) -> Vec<String> {
    section.iter().copied().chain(name).map(ToOwned::to_owned).collect()
}
