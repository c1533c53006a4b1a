//! The primary that sentinels name, and its replicas.

use std::collections::{BTreeSet, HashMap};

use redis::{Cmd, cmd};

use super::{Finding, Role, as_warning, connect, server};
use crate::endpoint::Endpoint;
use crate::examine::connection::Connection;
use crate::url::RedisUrl;
use tidegate_core::text::printable;

/// The replies of all sentinels.
#[derive(Default)]
struct SentinelReplies {
    asked: usize,
    answered: usize,
    primaries: BTreeSet<Endpoint>,
    replicas: BTreeSet<Endpoint>,
    /// Why a failover would not happen.
    no_quorum: Option<String>,
}

/// The servers that the sentinels name, and what was found about the sentinels.
pub(super) async fn find(
    sentinels: &[Endpoint],
    name: &str,
    url: &RedisUrl,
) -> (Vec<(Endpoint, Role)>, Vec<Finding>) {
    let mut replies = SentinelReplies { asked: sentinels.len(), ..SentinelReplies::default() };
    let mut findings = Vec::new();
    for endpoint in sentinels {
        match sentinel(endpoint, url).await {
            Ok(mut connection) => replies.ask(&mut connection, name).await,
            Err(finding) => findings.push(as_warning(finding)),
        }
    }
    findings.push(replies.finding(name));
    let primaries = replies.primaries.iter().map(|it| (it.clone(), Role::Primary));
    let replicas = replies.replicas.difference(&replies.primaries);
    (primaries.chain(replicas.map(|it| (it.clone(), Role::Replica))).collect(), findings)
}

async fn sentinel(endpoint: &Endpoint, url: &RedisUrl) -> Result<Connection, Finding> {
    connect(&server(endpoint, url, Role::Primary)?).await
}

fn endpoint(host: &str, port: &str) -> Option<Endpoint> {
    Some(Endpoint::Tcp { host: host.to_owned(), port: port.parse().ok()? })
}

impl SentinelReplies {
    async fn ask(&mut self, connection: &mut Connection, name: &str) {
        self.answered += 1;
        let about = |what: &str| -> Cmd { cmd("SENTINEL").arg(what).arg(name).clone() };
        let primary = connection.query("SENTINEL", &about("GET-MASTER-ADDR-BY-NAME")).await;
        let primary: Option<(String, String)> = primary.flatten();
        self.primaries.extend(primary.and_then(|(ip, port)| endpoint(&ip, &port)));
        let replicas: Option<Vec<HashMap<String, String>>> =
            connection.query("SENTINEL", &about("REPLICAS")).await;
        let address = |it: &HashMap<String, String>| endpoint(it.get("ip")?, it.get("port")?);
        self.replicas.extend(replicas.iter().flatten().filter_map(address));
        if let Some(Err(error)) = connection.try_command(&about("CKQUORUM")).await {
            self.no_quorum = Some(printable(&error.to_string()));
        }
    }

    fn finding(&self, name: &str) -> Finding {
        let (asked, answered, name) = (self.asked, self.answered, printable(name));
        let primaries: Vec<_> = self.primaries.iter().map(ToString::to_string).collect();
        let seen = format!("{answered} of {asked} sentinels answer");
        let Some(primary) = primaries.first() else {
            return Finding::fault("sentinel", format!("{seen}, and none knows `{name}`"))
                .risk("no check can be answered by the store, and on_store_error decides")
                .remedy(
                    "redis-cli -h SENTINEL -p 26379 SENTINEL MASTERS    # the names they know",
                );
        };
        if primaries.len() > 1 {
            let seen = format!("{seen}, and name different primaries: {}", primaries.join(", "));
            return Finding::fault("sentinel", seen)
                .risk("nodes may count at both: up to one burst more per key for each")
                .remedy("wait for a failover to end; then redis-cli -p 26379 SENTINEL RESET NAME");
        }
        let seen = format!("{seen}, and name {primary}");
        if let Some(why) = &self.no_quorum {
            return Finding::warning("sentinel", format!("{seen}; {why}"))
                .risk("if the primary fails, nobody is promoted")
                .remedy("start the sentinels that are missing");
        }
        if answered < 3 {
            return Finding::warning("sentinel", seen)
                .risk(
                    "with fewer than three, one failure may leave no majority to promote a replica",
                )
                .remedy(
                    "run three or more, on machines of their own, and name them all in the URL",
                );
        }
        Finding::ok("sentinel", seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::driver::Severity;

    #[test]
    fn sentinels_have_to_agree() {
        let replies = |answered, primaries: &[&str], no_quorum: Option<&str>| SentinelReplies {
            asked: 3,
            answered,
            primaries: primaries.iter().filter_map(|host| endpoint(host, "1")).collect(),
            replicas: BTreeSet::new(),
            no_quorum: no_quorum.map(str::to_owned),
        };
        for (replies, severity) in [
            (replies(3, &["a"], None), Severity::Ok),
            (replies(2, &["a"], None), Severity::Warning),
            (replies(3, &["a"], Some("NOQUORUM")), Severity::Warning),
            (replies(3, &["a", "b"], None), Severity::Fault),
            (replies(3, &[], None), Severity::Fault),
            (replies(0, &[], None), Severity::Fault),
        ] {
            assert_eq!(replies.finding("main").severity, severity);
        }
    }
}
