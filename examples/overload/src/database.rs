//! A PostgreSQL server for the demo, in a temporary folder and on a Unix socket there.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::{Client, Config, NoTls};

use crate::Fallible;

pub(crate) const USER: &str = "tidegate";
pub(crate) const NAME: &str = "postgres";

/// How long the server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// 100,000 orders of 1,000 customers.
const ORDERS: &str = "
    CREATE TABLE orders (customer int NOT NULL, amount int NOT NULL);
    INSERT INTO orders SELECT n % 1000, n % 97 FROM generate_series(1, 100000) AS n;
    CREATE INDEX ON orders (customer) INCLUDE (amount);
    VACUUM ANALYZE orders;
";

pub(crate) struct Database {
    pub(crate) folder: PathBuf,
    programs: PathBuf,
    owner: Option<Owner>,
    server: Option<Child>,
}

/// The user that runs the server if the demo runs as root, which PostgreSQL refuses.
#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl Database {
    pub(crate) async fn start() -> Fallible<Self> {
        let programs = programs()?;
        let folder = std::env::temp_dir().join(format!("tidegate-overload-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // From here on, dropping `database` removes the folder.
        let mut database = Self { folder, programs, owner: None, server: None };
        if fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0) {
            let owner = Owner::unprivileged()?;
            chown(&database.folder, Some(owner.user), Some(owner.group))?;
            database.owner = Some(owner);
        }
        database.init().await?;
        database.server = Some(database.serve()?);
        for statement in ORDERS.split_inclusive(';').filter(|it| !it.trim().is_empty()) {
            database.connected().await?.batch_execute(statement).await?;
        }
        Ok(database)
    }

    async fn init(&self) -> Fallible<()> {
        let made = tokio::process::Command::from(self.command("initdb"))
            .args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--username={USER}"))
            .kill_on_drop(true)
            .output()
            .await?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)).into());
        }
        Ok(())
    }

    fn serve(&self) -> Fallible<Child> {
        let log = fs::File::create(self.folder.join("log"))?;
        let mut command = self.command("postgres");
        for setting in ["fsync=off", "jit=off", "listen_addresses=", "max_connections=20"] {
            command.args(["-c", setting]);
        }
        command.arg("-c").arg(format!("unix_socket_directories={}", self.folder.display()));
        Ok(command.stdout(log.try_clone()?).stderr(log).spawn()?)
    }

    /// A PostgreSQL program, run by the owner in its own process group: Ctrl-C only interrupts the demo, which then stops
    /// the server.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.arg("-D").arg(self.folder.join("data")).current_dir(&self.folder);
        command.stdin(Stdio::null()).process_group(0);
        if let Some(owner) = self.owner {
            command.uid(owner.user).gid(owner.group);
        }
        command
    }

    async fn connected(&self) -> Fallible<Client> {
        let config = config(&self.folder);
        let start = Instant::now();
        loop {
            match config.connect(NoTls).await {
                Ok((client, connection)) => {
                    tokio::spawn(connection);
                    return Ok(client);
                }
                Err(error) if start.elapsed() > START_TIMEOUT => {
                    let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
                    return Err(format!("PostgreSQL does not answer: {error}\n{log}").into());
                }
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            // Only pg_ctl stops all processes of the server and frees its shared memory.
            let stopped = self.command("pg_ctl").args(["stop", "-m", "immediate", "-s"]).status();
            if !stopped.is_ok_and(|status| status.success()) {
                let _ = server.kill();
            }
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The connection settings for the server in a folder.
pub(crate) fn config(folder: &Path) -> Config {
    let mut config = Config::new();
    config.host_path(folder).user(USER).dbname(NAME);
    config
}

/// The folder of PostgreSQL's programs: in `PATH`, or outside it where Debian installs each version.
fn programs() -> Fallible<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).chain(debian).collect();
    folders.retain(|folder| {
        ["initdb", "postgres", "pg_ctl"].iter().all(|it| folder.join(it).exists())
    });
    folders.pop().ok_or_else(|| "PostgreSQL is not installed: apt-get install postgresql".into())
}

impl Owner {
    /// The user `postgres` of Debian's package, or else `nobody`.
    fn unprivileged() -> Fallible<Self> {
        let users = fs::read_to_string("/etc/passwd")?;
        let found = ["postgres", "nobody"].iter().find_map(|name| Self::named(name, &users));
        found.ok_or_else(|| "PostgreSQL does not run as root, and there is no user postgres".into())
    }

    fn named(name: &str, users: &str) -> Option<Self> {
        let line = users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let mut fields = line.split(':').skip(1).map(str::parse);
        Some(Self { user: fields.next()?.ok()?, group: fields.next()?.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_found_by_its_whole_name() {
        let users = "postgres-x:x:1:2::/:/bin/sh\npostgres:x:101:104:Admin:/var:/bin/bash\n";
        let owner = Owner::named("postgres", users).unwrap();
        assert_eq!((owner.user, owner.group), (101, 104));
        assert!(Owner::named("nobody", users).is_none());
    }
}
