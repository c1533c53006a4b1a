//! What a configuration will say to the HTTP doors, as options until there is one.

use tidegate::tower::Headers;

use super::Failure;
use crate::doors::forward_auth::{Match, Route, Routes};
use crate::doors::http::{Admin, Settings};
use crate::identity::{ClientIp, KeyParts};

/// Options of the HTTP doors.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HttpArgs {
    /// A proxy, or a network of them, whose `X-Forwarded-*` headers are believed
    #[arg(long = "trust", value_name = "NETWORK")]
    trusted: Vec<String>,
    /// What forward-auth limits: `[METHOD] [HOST]/PATH POLICY [KEY,…]`, like `POST /api/login login client_ip`
    #[arg(long = "route", value_name = "ROUTE")]
    routes: Vec<String>,
    /// A file with the token that calls which change things need; without one they answer on this machine only
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<std::path::PathBuf>,
    /// What `X-RateLimit-Reset` counts: seconds since 1970, seconds from now, or nothing at all
    #[arg(long, value_name = "epoch|delta|off", default_value = "epoch")]
    legacy_headers: Legacy,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Legacy {
    Epoch,
    Delta,
    Off,
}

impl HttpArgs {
    /// The settings that these options make.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let trust = |trusting: ClientIp, network: &String| trusting.trust(network);
        let client_ip = self.trusted.iter().try_fold(ClientIp::new(), trust);
        let routes = self.routes.iter().map(|text| route(text)).collect::<Result<_, _>>();
        Ok(Settings {
            client_ip: client_ip.map_err(|error| Failure::new(format!("--trust: {error}")))?,
            routes: Routes::new(routes.map_err(Failure::new)?, std::collections::BTreeMap::new()),
            admin: self.admin()?,
            headers: match self.legacy_headers {
                Legacy::Epoch => Headers::LegacyEpoch,
                Legacy::Delta => Headers::LegacyDelta,
                Legacy::Off => Headers::Standard,
            },
        })
    }

    fn admin(&self) -> Result<Admin, Failure> {
        let Some(path) = &self.admin_token_file else { return Ok(Admin::default()) };
        let failed = |what: String| Failure::new(format!("{}: {what}", path.display()));
        let token = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        Admin::with_token(&token).map_err(|what| failed(what.to_owned()))
    }
}

fn route(text: &str) -> Result<Route, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (methods, rest) = match words.split_first() {
        Some((first, rest)) if !first.contains('/') => (vec![*first], rest),
        _ => (Vec::new(), &words[..]),
    };
    let (place, policy, key) = match rest {
        [place, policy] => (*place, *policy, None),
        [place, policy, key] => (*place, *policy, Some(*key)),
        _ => return Err(format!("--route {text}: expected [METHOD] [HOST]/PATH POLICY [KEY,…]")),
    };
    let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let key = key.map(|key| KeyParts::read(key.split(','))).transpose();
    let key = key.map_err(|error| format!("--route {text}: {error}"))?;
    let host = Some(host).filter(|host| !host.is_empty());
    let matched = Match { path: Some(path), methods: &methods, host };
    Route::new(matched, policy, key).map_err(|error| format!("--route {text}: {error}"))
}
