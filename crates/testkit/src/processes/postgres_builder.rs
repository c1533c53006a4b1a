//! The options of a PostgreSQL server, and how its data come to be.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use super::postgres::{PostgresServer, Setup, as_owner, programs, unprivileged};
use super::scratch::{PrivateDir, free_port};
use super::tls::TlsFiles;

const USER: &str = "tidegate";

/// Without `fsync`: a crash of the machine is not tested.
const DEFAULTS: [&str; 2] = ["fsync=off", "unix_socket_directories="];

/// Everybody on this machine may do everything.
const TRUST: &str = "host all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n";

#[derive(Debug, Default)]
#[must_use = "it is started by `start`"]
pub struct PostgresBuilder {
    settings: Vec<String>,
    access: Option<String>,
    tls: bool,
    place: Option<(String, u16)>,
    /// Where the data are, if not in the server's own directory.
    data: Option<PathBuf>,
    primary: Option<String>,
    superuser: Option<String>,
}

impl PostgresBuilder {
    /// Adds a setting, like `max_connections=20`. The last of the same name counts.
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// The lines of `pg_hba.conf`, instead of trust for everybody on this machine.
    pub fn access(mut self, lines: &str) -> Self {
        self.access = Some(lines.to_owned());
        self
    }

    /// Serves TLS, with generated certificates: see `PostgresServer::tls_files`.
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// At a loopback address and port that are free.
    pub fn at(mut self, host: &str, port: u16) -> Self {
        self.place = Some((host.to_owned(), port));
        self
    }

    /// With its data in this folder, which is empty or does not exist.
    pub fn data_in(mut self, folder: PathBuf) -> Self {
        self.data = Some(folder);
        self
    }

    /// Who may do everything, and whose URL `PostgresServer::url` is; `tidegate` by default.
    pub fn superuser(mut self, name: &str) -> Self {
        self.superuser = Some(name.to_owned());
        self
    }

    /// A standby that follows `primary`.
    pub fn replica_of(mut self, primary: &PostgresServer) -> Self {
        self.primary = Some(primary.url());
        self
    }

    /// Starts the server. Returns when it answers.
    pub fn start(self) -> PostgresServer {
        let (dir, programs, owner) = (PrivateDir::new(), programs(), unprivileged());
        let (host, port) = self.place.unwrap_or_else(|| ("127.0.0.1".to_owned(), free_port()));
        let given = |path: &std::path::Path| {
            if let Some((user, group)) = owner {
                chown(path, Some(user), Some(group)).unwrap();
            }
        };
        given(dir.path());
        let data = self.data.unwrap_or_else(|| dir.file("data"));
        let user = self.superuser.unwrap_or_else(|| USER.to_owned());
        let mut command = match &self.primary {
            None => {
                let mut command = as_owner(owner, &programs.join("initdb"));
                command.args(["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]);
                command.arg(format!("--username={user}"));
                command
            }
            Some(primary) => {
                let mut command = as_owner(owner, &programs.join("pg_basebackup"));
                command.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
                command.args(["--dbname", primary]);
                command
            }
        };
        run(command.arg("-D").arg(&data).current_dir(dir.path()));
        let mut settings: Vec<_> = DEFAULTS.map(str::to_owned).into();
        settings.push(format!("listen_addresses={host}"));
        let tls_files = self.tls.then(|| {
            let (files, _) = TlsFiles::create(&dir, false);
            for (setting, name) in [
                ("ssl_cert_file", "server.pem"),
                ("ssl_key_file", "server.key"),
                ("ssl_ca_file", "ca.pem"),
            ] {
                let file = dir.file(name);
                given(&file);
                fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
                settings.push(format!("{setting}={}", file.display()));
            }
            settings.push("ssl=on".to_owned());
            files
        });
        settings.extend(self.settings);
        fs::write(data.join("pg_hba.conf"), self.access.as_deref().unwrap_or(TRUST)).unwrap();
        PostgresServer::start_as(Setup {
            host,
            port,
            user,
            programs,
            owner,
            settings,
            data,
            tls_files,
            dir,
        })
    }
}

fn run(command: &mut Command) {
    let made = command.output().unwrap_or_else(|error| {
        panic!("cannot start {command:?}: {error}; `./dev test` installs what the tests need")
    });
    let why = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{command:?}: {why}");
}
