//! Other proxies in front of the same app, with the files of the example: Envoy with adaptive concurrency, and nginx with
//! a static rate.

pub(crate) mod envoy;
pub(crate) mod nginx;

use std::fs;
use std::path::{Path, PathBuf};

use envoy::Gradient;
use serde::Serialize;

use crate::Fallible;
use crate::load::Figures;

/// Beside tidegate, in the same run.
#[derive(Serialize)]
pub(crate) struct Peers {
    /// With its default maximum, and with the in-flight cap of tidegate as its maximum.
    pub(crate) envoy: Peer,
    pub(crate) envoy_capped: Peer,
    /// The measured capacity, as a static rate with a burst of a tenth of a second and of a second.
    pub(crate) nginx_rate_per_s: u64,
    pub(crate) nginx_small_burst: Peer,
    pub(crate) nginx_large_burst: Peer,
}

/// What a peer made of the loads that tidegate gets.
#[derive(Serialize)]
pub(crate) struct Peer {
    pub(crate) unloaded: Figures,
    pub(crate) overloaded: Figures,
    /// What Envoy says of itself afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gradient: Option<Gradient>,
}

/// The programs of the peers.
pub(crate) struct Programs {
    pub(crate) envoy: PathBuf,
    pub(crate) nginx: PathBuf,
}

impl Programs {
    /// Fails with how to install the first program that is missing.
    pub(crate) fn check(&self) -> Fallible<()> {
        let install = [
            ("Envoy", &self.envoy, "./dev clients"),
            ("nginx", &self.nginx, "apt-get install nginx"),
        ];
        match install.into_iter().find(|(_, program, _)| !program.exists()) {
            None => Ok(()),
            Some((name, program, how)) => {
                Err(format!("{name} is not installed as {}: {how}", program.display()).into())
            }
        }
    }
}

/// What a peer is started with.
pub(crate) struct Setup<'a> {
    /// The folder of the example.
    pub(crate) example: &'a Path,
    /// Where the peer's own folder is created.
    pub(crate) folder: &'a Path,
    pub(crate) app_url: &'a str,
}

impl Setup<'_> {
    /// Creates a folder for a peer, with a file of the example in which each `${NAME}` is replaced.
    fn configured(
        &self,
        name: &str,
        file: &str,
        variables: &[(&str, &str)],
    ) -> Fallible<[PathBuf; 2]> {
        let folder = self.folder.join(name);
        fs::create_dir(&folder)?;
        let template = self.example.join(file);
        let text = fs::read_to_string(&template)
            .map_err(|error| format!("{}: {error}", template.display()))?;
        let ours = [("FOLDER", &*folder.display().to_string()), ("APP_PORT", port(self.app_url))];
        let config = folder.join(file);
        fs::write(&config, filled_in(filled_in(text, &ours), variables))?;
        Ok([folder, config])
    }
}

fn filled_in(text: String, variables: &[(&str, &str)]) -> String {
    variables.iter().fold(text, |text, (name, value)| text.replace(&format!("${{{name}}}"), value))
}

/// The port of a URL such as `http://127.0.0.1:8080`.
fn port(url: &str) -> &str {
    url.rsplit(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_filled_in_and_others_are_left() {
        let text = "listen ${PORT}; to $host:${APP_PORT}; again ${PORT};".to_owned();
        let filled_in = filled_in(text, &[("PORT", "1"), ("APP_PORT", "22")]);
        assert_eq!(filled_in, "listen 1; to $host:22; again 1;");
    }

    #[test]
    fn the_port_is_the_end_of_a_url() {
        assert_eq!(port("http://127.0.0.1:8080"), "8080");
    }

    #[test]
    fn a_missing_program_is_named_with_how_to_install_it() {
        let here = std::env::current_exe().unwrap();
        let missing = PathBuf::from("/missing/program");
        for (envoy, nginx, said) in [
            (&here, &here, None),
            (&missing, &here, Some("Envoy is not installed as /missing/program: ./dev clients")),
            (
                &here,
                &missing,
                Some("nginx is not installed as /missing/program: apt-get install nginx"),
            ),
        ] {
            let programs = Programs { envoy: envoy.clone(), nginx: nginx.clone() };
            assert_eq!(programs.check().err().map(|it| it.to_string()).as_deref(), said);
        }
    }
}
