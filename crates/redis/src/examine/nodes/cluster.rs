//! The nodes of a cluster, as the first seed that answers knows them.

use redis::cmd;

use super::{Finding, Nodes, Role, as_warning, connect, server};
use crate::endpoint::Endpoint;
use crate::url::RedisUrl;

pub(super) async fn find(seeds: &[Endpoint], url: &RedisUrl, nodes: &mut Nodes) {
    let mut missed = Vec::new();
    for seed in seeds {
        match members(seed, url).await {
            Ok(members) => {
                for member in members.iter().filter(|member| member.has_address()) {
                    nodes.add(&member.endpoint, url, member.role());
                }
                nodes.findings.extend(missed.into_iter().map(as_warning));
                nodes.findings.push(replicas(&members));
                nodes.findings.push(one_slot());
                return;
            }
            Err(finding) => missed.push(finding),
        }
    }
    nodes.findings.append(&mut missed);
}

async fn members(seed: &Endpoint, url: &RedisUrl) -> Result<Vec<Member>, Finding> {
    let server = server(seed, url, Role::Primary)?;
    let mut connection = connect(&server).await?;
    let text: Option<String> = connection.query("CLUSTER NODES", cmd("CLUSTER").arg("NODES")).await;
    let text = text.ok_or_else(|| no_cluster().at(&server.name))?;
    Ok(text.lines().filter_map(Member::read).collect())
}

fn no_cluster() -> Finding {
    Finding::fault("cluster", "it is not in a cluster, or does not let us look with CLUSTER NODES")
        .risk("redis+cluster:// does not find the other nodes")
        .remedy("--store redis://HOST:PORT if it stands alone; otherwise ACL SETUSER USER +cluster")
}

/// One line of `CLUSTER NODES`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Member {
    id: String,
    endpoint: Endpoint,
    flags: Vec<String>,
    primary_id: String,
    has_slots: bool,
}

impl Member {
    /// `id ip:port@bus,name flags primary ping pong epoch link slot…`.
    fn read(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        let [id, address, flags, primary_id, _, _, _, _, slots @ ..] = words.as_slice() else {
            return None;
        };
        let (ip, port) = address.split('@').next()?.rsplit_once(':')?;
        Some(Self {
            id: (*id).to_owned(),
            endpoint: Endpoint::Tcp { host: ip.to_owned(), port: port.parse().ok()? },
            flags: flags.split(',').map(str::to_owned).collect(),
            primary_id: (*primary_id).to_owned(),
            has_slots: !slots.is_empty(),
        })
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    fn has_address(&self) -> bool {
        !self.is("noaddr") && !self.is("handshake")
    }

    /// A node without slots counts as a replica, because no check depends on it.
    fn role(&self) -> Role {
        if self.has_slots { Role::Primary } else { Role::Replica }
    }
}

/// Whether every node that serves has a replica.
fn replicas(members: &[Member]) -> Finding {
    let has_copy = |id: &str| members.iter().any(|it| it.primary_id == id && !it.is("fail"));
    let alone = members.iter().filter(|it| it.has_slots && !has_copy(&it.id));
    let alone: Vec<_> = alone.map(|it| it.endpoint.to_string()).collect();
    if alone.is_empty() {
        return Finding::ok("cluster-copies", "every node that serves slots has a replica");
    }
    Finding::warning("cluster-copies", format!("no replica of {}", alone.join(", ")))
        .risk("if it fails, so do the checks of its slots, and their counters are lost")
        .remedy("redis-cli --cluster add-node NEW:PORT ANY:PORT --cluster-slave")
}

fn one_slot() -> Finding {
    let seen = "limits of one policy that count different identifiers share a slot";
    Finding::note("cluster-slots", seen).risk(
        "one node carries all of such a policy; those on one identifier spread over all nodes",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
aa 127.0.0.1:7000@17000 myself,master - 0 0 1 connected 0-8191
bb 127.0.0.1:7001@17001,host-b master - 0 0 2 connected 8192-16383 [93-<-cc]
cc ::1:7002@17002 slave aa 0 0 1 connected
dd 127.0.0.1:7003@17003 slave,fail bb 0 0 1 disconnected
ee :0@0 slave,noaddr bb 0 0 1 disconnected
";

    #[test]
    fn members_are_read_with_what_they_serve() {
        let members: Vec<_> = NODES.lines().filter_map(Member::read).collect();
        let seen: Vec<_> = members
            .iter()
            .filter(|it| it.has_address())
            .map(|it| (it.endpoint.to_string(), it.role()))
            .collect();
        let expected = [
            ("127.0.0.1:7000", Role::Primary),
            ("127.0.0.1:7001", Role::Primary),
            ("[::1]:7002", Role::Replica),
            ("127.0.0.1:7003", Role::Replica),
        ]
        .map(|(address, role)| (address.to_owned(), role));
        assert_eq!(seen, expected);
        // One replica of the second has failed, and the other has no address.
        let members: Vec<_> = members.into_iter().filter(Member::has_address).collect();
        assert_eq!(replicas(&members).seen, "no replica of 127.0.0.1:7001");
        assert_eq!(Member::read("aa 127.0.0.1:7000@17000 master"), None);
    }
}
