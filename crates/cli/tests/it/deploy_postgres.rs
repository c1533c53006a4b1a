//! `deploy/postgres`: a real PostgreSQL with these files. tidegate works with it, and its user has no other rights.

use std::process::Command;

use crate::deploy::{ran, text};
use crate::deploy_docker::{composed_server, composed_store};
use crate::processes::{DEADLINE, PostgresServer, wait_until};
use crate::programs::root;
use crate::support::{Folder, Server, run};

/// People with a password, but for the superuser, who sets the server up.
const ACCESS: &str =
    "host all postgres 127.0.0.0/8 trust\nhost all all 127.0.0.0/8 scram-sha-256\n";

/// PostgreSQL as Compose starts it, with its own port.
struct Postgres {
    server: PostgresServer,
    _folder: Folder,
}

impl Postgres {
    fn start() -> Self {
        let folder = Folder::new();
        let config = folder.write("postgresql.conf", text("postgres/postgresql.conf"));
        let server = PostgresServer::builder()
            .superuser("postgres")
            .access(ACCESS)
            .setting(&format!("config_file={config}"))
            .setting("fsync=on")
            .start();
        server.sql("CREATE DATABASE limits");
        let postgres = Self { server, _folder: folder };
        postgres.set_up(Some("hunter2")).unwrap();
        postgres
    }

    /// Runs `setup.sql` as its first lines say.
    fn set_up(&self, password: Option<&str>) -> Result<String, String> {
        let url = format!("postgres://postgres@{}/limits", self.server.address());
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", &url, "--file"]);
        psql.arg(root().join("deploy/postgres/setup.sql")).env_remove("TIDEGATE_PASSWORD");
        ran(psql.envs(password.map(|password| ("TIDEGATE_PASSWORD", password))))
    }

    /// The store of Compose, at this server.
    fn store(&self) -> String {
        let store = composed_store("postgres");
        assert!(store.contains("@postgres:5432/"), "{store}");
        store.replace("postgres:5432", &self.server.address())
    }

    /// What the user of tidegate gets for a statement.
    fn as_tidegate(&self, statement: &str) -> Result<String, String> {
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--dbname", &self.store()]);
        ran(psql.args(["--command", statement]))
    }
}

fn until_stored(server: &Server) {
    wait_until("the server counts in its store", DEADLINE, || {
        server.post("/v1/peek", r#"{"policy":"api","key":"probe"}"#).json()["source"] == "store"
    });
}

#[test]
fn two_servers_with_these_files_share_one_limit() {
    let postgres = Postgres::start();
    let servers = [(); 2].map(|()| composed_server("postgres", &postgres.store()));
    servers.iter().for_each(until_stored);
    let check = |server: &Server| {
        server.post("/v1/check", r#"{"policy":"login","key":"ann"}"#).json()["allowed"] == true
    };
    assert_eq!((0..12).filter(|turn| check(&servers[turn % 2])).count(), 5);
    let put = servers[0].send("PUT", "/v1/overrides/api/partner", &[], br#"{"limit":"5/h"}"#);
    assert!(put.status < 300, "{}", put.body);
}

#[test]
fn the_doctor_finds_no_fault_with_these_files() {
    let postgres = Postgres::start();
    let output = run(&["doctor", "--store", &postgres.store(), "--nodes", "3"]);
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    for line in ["ok durability", "ok connections", "ok autovacuum", "ok script"] {
        assert!(output.stdout.contains(line), "{line}: {}", output.stdout);
    }
    assert!(!output.stdout.contains("hunter2"), "{}", output.stdout);
}

#[test]
fn the_user_has_its_schema_and_no_other_rights() {
    let postgres = Postgres::start();
    until_stored(&composed_server("postgres", &postgres.store()));
    assert!(postgres.as_tidegate("SELECT count(*) FROM tidegate.items").is_ok());
    for statement in [
        "CREATE TABLE public.mine (x int)",
        "CREATE SCHEMA mine",
        "CREATE TEMPORARY TABLE mine (x int)",
        "CREATE ROLE mine",
        "CREATE DATABASE mine",
        "SELECT * FROM pg_authid",
        "ALTER SYSTEM SET fsync = off",
        "COPY (SELECT 1) TO '/tmp/tidegate-test'",
        "SELECT pg_read_file('/etc/passwd')",
    ] {
        let refused = postgres.as_tidegate(statement).unwrap_err();
        let is_refused =
            refused.contains("permission denied") || refused.contains("must be superuser");
        assert!(is_refused, "{statement}: {refused}");
    }
}

#[test]
fn no_user_is_made_without_a_password() {
    let postgres = Postgres::start();
    postgres.server.sql("CREATE DATABASE another");
    assert!(postgres.set_up(None).is_err());
    let wrong = postgres.store().replace("hunter2", "hunter3");
    let output = run(&["doctor", "--store", &wrong]);
    assert_eq!(output.code, Some(1), "{}", output.stdout);
    assert!(output.stdout.contains("password authentication failed"), "{}", output.stdout);
    assert!(!output.stdout.contains("hunter"), "{}", output.stdout);
}
