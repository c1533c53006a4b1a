//! Where the configuration comes from: a file or the demo, with what was typed on top.

use super::Args;
use tidegate_config::demo;
use tidegate_config::envoy::Error;
use tidegate_config::{Config, Listener, Listeners, Position, Problem, SecretSource, usual_path};
use tidegate_server::Source;

/// The file that is named, the usual one if there is one, or the demo; none of these where Envoy's rules are all that
/// is wanted.
pub(super) fn of(args: &Args) -> Source {
    let file = args.config.clone().or_else(usual_path);
    let rules = args.envoy.path();
    let files = file.iter().chain(rules).cloned().collect();
    let (args, has_rules) = (args.clone(), rules.is_some());
    let read = move || {
        let written = match &file {
            Some(path) => Config::read(path),
            None if has_rules => Ok(Config::default()),
            None => demo::config(),
        };
        with_typed(written.map_err(|problems| problems.lines())?, &args)
    };
    Source { files, read: Box::new(read) }
}

/// What was typed wins over what is written.
fn with_typed(mut config: Config, args: &Args) -> Result<Config, Vec<String>> {
    if args.only_typed_doors {
        config.listen = Listeners { http: None, grpc: None, resp: None, proxy: None };
    }
    let listens = &mut config.listen;
    for (written, typed) in [
        (&mut listens.http, &args.listen),
        (&mut listens.grpc, &args.envoy.grpc),
        (&mut listens.resp, &args.resp),
    ] {
        if let Some(address) = typed {
            let options = written.take().unwrap_or_else(|| Listener::on(address.clone()));
            *written = Some(Listener { address: address.clone(), ..options });
        }
    }
    match (&mut listens.resp, &args.resp_password_file) {
        (Some(resp), Some(file)) => resp.password = Some(SecretSource::File(file.clone())),
        (None, Some(_)) => {
            let closed = "--resp-password-file: the Redis protocol is not spoken anywhere: say --resp ADDR, too";
            return Err(vec![closed.to_owned()]);
        }
        (_, None) => {}
    }
    if let Some(url) = &args.store {
        config.store = config.store.at(url.clone());
    }
    let rls = args.envoy.rls(config.rls.manner)?;
    let warning = |error: &Error| Problem::new(Position::START, error.to_string());
    config.warnings.extend(rls.rules.warnings.iter().map(warning));
    config.rls = rls.into();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn a_store_that_is_typed_is_treated_as_the_file_says() {
        let written = |url| {
            let store = format!("{{ url: '{url}', deadline: 70ms, breaker: false, nodes: 7 }}");
            Config::parse(&format!("store: {store}\npolicies: {{ a: 5/s }}"), &|_| None).unwrap()
        };
        let typed = Typed::parse_from(["serve", "--store", "redis://typed:1"]);
        let config = with_typed(written("redis://written:1"), &typed.args).unwrap();
        assert_eq!(config.store, written("redis://typed:1").store);
    }
}
