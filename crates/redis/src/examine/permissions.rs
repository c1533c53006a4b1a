//! Whether the user may run the commands of the scripts. Each is sent by itself: a script that may not run one does not
//! say which, and `ACL DRYRUN` takes an administrator.

use redis::{Cmd, cmd};

use super::connection::Connection;
use super::facts::Permissions;

/// A command as access lists name it, and its arguments; `K` is a key that does not exist. Where a command would
/// write, its arguments are invalid: permissions are checked first. The scripts are the source of this
/// list, and a test compares them.
const COMMANDS: [(&str, &[&str]); 30] = [
    ("eval", &["EVAL", "return 1", "0"]),
    ("evalsha", &["EVALSHA", "0000000000000000000000000000000000000000", "0"]),
    ("script|load", &["SCRIPT", "LOAD", "return 1"]),
    ("time", &["TIME"]),
    ("exists", &["EXISTS", "K"]),
    ("get", &["GET", "K"]),
    ("mget", &["MGET", "K"]),
    ("set", &["SET", "K", "1", "NONSENSE"]),
    ("del", &["DEL", "K"]),
    ("unlink", &["UNLINK", "K"]),
    ("hdel", &["HDEL", "K", "x"]),
    ("hget", &["HGET", "K", "x"]),
    ("hgetall", &["HGETALL", "K"]),
    ("hlen", &["HLEN", "K"]),
    ("hscan", &["HSCAN", "K", "0"]),
    ("hset", &["HSET", "K", "x", "1", "nonsense"]),
    ("pexpire", &["PEXPIRE", "K", "1"]),
    ("lindex", &["LINDEX", "K", "0"]),
    ("llen", &["LLEN", "K"]),
    ("lrange", &["LRANGE", "K", "0", "0"]),
    ("lset", &["LSET", "K", "0", "x"]),
    ("ltrim", &["LTRIM", "K", "0", "0"]),
    ("zadd", &["ZADD", "K", "nonsense", "x"]),
    ("zcard", &["ZCARD", "K"]),
    ("zrangebyscore", &["ZRANGEBYSCORE", "K", "0", "0"]),
    ("zrem", &["ZREM", "K", "x"]),
    ("zremrangebyscore", &["ZREMRANGEBYSCORE", "K", "0", "0"]),
    ("zrevrange", &["ZREVRANGE", "K", "0", "0"]),
    ("zscore", &["ZSCORE", "K", "x"]),
    // Last, because every argument makes sense, and it writes. Its key expires at once.
    ("rpush", &["RPUSH", "K", "x"]),
];

/// After a failover, the client checks that it has found the primary.
const ROLE: (&str, &[&str]) = ("role", &["ROLE"]);

/// Tries every command.
pub(super) async fn collect(
    connection: &mut Connection,
    key: &str,
    after_failovers: bool,
) -> Option<Permissions> {
    let mut permissions = Permissions::default();
    let role = after_failovers.then_some(ROLE);
    for (name, words) in role.into_iter().chain(COMMANDS) {
        if name == "rpush" && (permissions.no_keys || permissions.missing.contains(&"pexpire")) {
            continue;
        }
        let Err(error) = connection.try_command(&command(words, key)).await? else { continue };
        let says = |what: &str| error.detail().is_some_and(|detail| detail.contains(what));
        match error.code() {
            // "… to access one of the keys used as arguments", or since 7.2 "No permissions to access a key".
            Some("NOPERM") if says(" access ") => permissions.no_keys = true,
            Some("NOPERM") => permissions.missing.push(name),
            // Renamed, or disabled by the provider.
            _ if says("unknown command") => permissions.missing.push(name),
            _ => {}
        }
    }
    connection.try_command(&command(&["PEXPIRE", "K", "1"], key)).await?.ok();
    Some(permissions)
}

fn command(words: &[&str], key: &str) -> Cmd {
    let mut words = words.iter().map(|word| if *word == "K" { key } else { word });
    let mut command = cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_scripts_use_these_commands_and_no_others() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lua");
        let mut used: BTreeSet<String> =
            ["eval", "evalsha", "script|load"].map(str::to_owned).into();
        for file in Path::new(folder).read_dir().unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let called = text.split("call('").skip(1).filter_map(|rest| rest.split('\'').next());
            used.extend(called.map(str::to_lowercase));
        }
        let listed: BTreeSet<String> = COMMANDS.iter().map(|it| it.0.to_owned()).collect();
        assert_eq!(listed, used);
    }
}
