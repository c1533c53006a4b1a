//! Where the configuration comes from: a file or the demo, with what was typed on top.

use std::path::{Path, PathBuf};

use super::Args;
use crate::config::{Config, Listen, SecretSource, StoreChoice};
use crate::demo;
use crate::reload::Source;

/// What is served without being told, if it is there.
const USUAL: &str = "tidegate.yaml";

/// The file that is named, the usual one if there is one, or the demo.
pub(super) fn of(args: &Args) -> Source {
    let usual = || Path::new(USUAL).exists().then(|| PathBuf::from(USUAL));
    let file = args.config.clone().or_else(usual);
    let (args, path) = (args.clone(), file.clone());
    let read = move || {
        let config = path.as_deref().map_or_else(demo::config, Config::read)?;
        Ok(with_typed(config, &args))
    };
    Source { file, read: Box::new(read) }
}

/// What was typed wins over what is written.
fn with_typed(mut config: Config, args: &Args) -> Config {
    if let Some(address) = &args.listen {
        let written = config.listen.http.take();
        let written = written.unwrap_or_else(|| Listen::on(address.clone()));
        config.listen.http = Some(Listen { address: address.clone(), ..written });
    }
    if let Some(address) = &args.resp {
        let password = args.resp_password_file.clone().map(SecretSource::File);
        config.listen.resp = Some(Listen { password, ..Listen::on(address.clone()) });
    }
    if let Some(url) = &args.store {
        config.store = StoreChoice::by_url(url.clone());
    }
    config
}
