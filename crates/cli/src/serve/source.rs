//! The configuration of `tidegate serve`: a file or the demo, with the arguments on top.

use super::{MeasuredArgs, ServeArgs};
use tidegate_config::demo;
use tidegate_config::envoy::Error;
use tidegate_config::proxy::Settings;
use tidegate_config::{Config, Door, Listener, Position, Problem, SecretSource, usual_path};
use tidegate_core::text::printable;
use tidegate_request::{KeyParts, Match, Route};
use tidegate_server::Source;

/// The named file, else the default file, else the demo; with Envoy's rules and no file, an empty configuration.
pub(super) fn from_args(args: &ServeArgs) -> Source {
    let file = args.config.clone().or_else(usual_path);
    let rules = args.envoy.path();
    let files = file.iter().chain(rules).cloned().collect();
    let origin = match (&file, rules) {
        (Some(file), _) => file.display().to_string(),
        (None, Some(rules)) => format!("the command line, with the rules of {}", rules.display()),
        (None, None) => "built-in demo".to_owned(),
    };
    let (args, has_rules) = (args.clone(), rules.is_some());
    let read = move || {
        let written = match &file {
            Some(path) => Config::read(path, crate::STORES),
            None if has_rules => Ok(Config::default()),
            None => demo::config(),
        };
        with_arguments(written.map_err(|problems| problems.lines())?, &args)
    };
    Source { files, origin, notes: Vec::new(), read: Box::new(read) }
}

/// Arguments override the configuration file.
fn with_arguments(mut config: Config, args: &ServeArgs) -> Result<Config, Vec<String>> {
    if args.only_typed_doors {
        config.listen.clear();
    }
    let MeasuredArgs { proxy, upstream, .. } = &args.measured;
    let typed = [
        (Door::Http, &args.listen),
        (Door::Grpc, &args.envoy.grpc),
        (Door::Resp, &args.resp),
        (Door::Proxy, proxy),
    ];
    for (door, typed) in typed {
        if let Some(address) = typed {
            let options = || Listener::on(address.clone());
            config.listen.entry(door).or_insert_with(options).address = address.clone();
        }
    }
    if let Some(upstream) = upstream {
        config.proxy = Some(Settings::for_upstreams(vec![upstream.clone()]));
    }
    if let Some(route) = only_route(&config, &args.measured)? {
        config.doors.routes = vec![route];
    }
    match (config.listen.get_mut(&Door::Resp), &args.resp_password_file) {
        (Some(resp), Some(file)) => resp.password = Some(SecretSource::File(file.clone())),
        (None, Some(_)) => {
            let closed =
                "--resp-password-file: the Redis protocol has no address: pass --resp ADDR, too";
            return Err(vec![closed.to_owned()]);
        }
        (_, None) => {}
    }
    if let Some(url) = &args.store {
        config.store = config.store.at(url.clone());
    }
    let rls = args.envoy.rls(config.rls.style)?;
    let warning = |error: &Error| Problem::new(Position::START, error.to_string());
    config.warnings.extend(rls.rules.warnings.iter().map(warning));
    config.rls = rls.into();
    Ok(config)
}

/// The route of all requests of a measured server.
fn only_route(config: &Config, args: &MeasuredArgs) -> Result<Option<Route>, Vec<String>> {
    let (Some(policy), Some(key)) = (&args.route_policy, &args.route_key) else { return Ok(None) };
    if !config.policies.contains_key(policy) {
        let policy = printable(policy);
        return Err(vec![format!("no policy is called `{policy}` (say which with --policy)")]);
    }
    let key = KeyParts::read([key.as_str()]).map_err(|why| vec![why])?;
    let route = Route::new(Match::default(), policy, Some(key), args.route_cost);
    route.map(Some).map_err(|bad| vec![format!("{bad:?}")])
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: ServeArgs,
    }

    #[test]
    fn a_store_argument_keeps_the_store_options_of_the_file() {
        let written = |url| {
            let store = format!("{{ url: '{url}', deadline: 70ms, breaker: false, nodes: 7 }}");
            Config::parse(
                &format!("store: {store}\npolicies: {{ a: 5/s }}"),
                &|_| None,
                crate::STORES,
            )
            .unwrap()
        };
        let typed = Typed::parse_from(["serve", "--store", "redis://typed:1"]);
        let config = with_arguments(written("redis://written:1"), &typed.args).unwrap();
        assert_eq!(config.store, written("redis://typed:1").store);
    }
}
