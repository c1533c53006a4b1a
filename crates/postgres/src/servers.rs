//! The servers of a URL one by one: each gets its own time to answer.

use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The same for each server alone. Of several servers the client library would wait for the first one, however long it
/// hangs, before it tries the next.
pub(crate) fn each_server(config: &Config) -> Vec<Config> {
    (0..config.get_hosts().len()).map(|number| server(config, number)).collect()
}

fn server(all: &Config, number: usize) -> Config {
    let mut one = Config::new();
    match all.get_hosts().get(number) {
        Some(Host::Tcp(name)) => one.host(name),
        #[cfg(unix)]
        Some(Host::Unix(path)) => one.host_path(path),
        None => &mut one,
    };
    if let Some(address) = all.get_hostaddrs().get(number) {
        one.hostaddr(*address);
    }
    // One port is that of all servers.
    if let Some(port) = all.get_ports().get(number).or(all.get_ports().first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(database) = all.get_dbname() {
        one.dbname(database);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = all.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    if let Some(timeout) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .channel_binding(all.get_channel_binding())
        .load_balance_hosts(all.get_load_balance_hosts())
        .target_session_attrs(all.get_target_session_attrs());
    one
}

/// How people name a server.
pub(crate) fn name(one: &Config) -> String {
    let port = one.get_ports().first().unwrap_or(&5432);
    match one.get_hosts().first() {
        Some(Host::Tcp(name)) => format!("{name}:{port}"),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::PostgresUrl;

    #[test]
    fn each_server_has_its_own_address_and_everything_else_of_the_url() {
        let parameters = "connect_timeout=3&keepalives_idle=7&keepalives_retries=2&options=-c%20a%3Db\
            &tcp_user_timeout=4&keepalives_interval=5&channel_binding=require&application_name=a";
        let of = |hosts: &str| {
            let url = format!("postgres://app:secret@{hosts}/limits?{parameters}");
            PostgresUrl::parse(&url).unwrap().config
        };
        let both = of("h1:1,h2:2");
        assert_eq!(each_server(&both), [of("h1:1"), of("h2:2")]);
        assert_eq!(each_server(&both).iter().map(name).collect::<Vec<_>>(), ["h1:1", "h2:2"]);
    }
}
