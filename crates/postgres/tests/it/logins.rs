//! Passwords, and files that hold them.

use std::fs;
use std::path::PathBuf;

use tidegate::{Ran, StoreErrorKind};
use tidegate_testkit::processes::PostgresServer;

use crate::support::{open, options, take};

/// The user `app` needs its password, everybody else none.
const ACCESS: &str = "host all app 127.0.0.0/8 scram-sha-256\nhost all all 127.0.0.0/8 trust\n";

fn server() -> PostgresServer {
    let server = PostgresServer::builder().access(ACCESS).start();
    server.sql("CREATE ROLE app LOGIN PASSWORD 'hunter2'");
    server.sql("GRANT CREATE ON DATABASE postgres TO app");
    server
}

/// Removed when dropped.
struct PasswordFile(PathBuf);

impl PasswordFile {
    fn new(name: &str, password: &str) -> Self {
        let name = format!("tidegate-{name}-{}", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(password);
        file
    }

    fn write(&self, password: &str) {
        fs::write(&self.0, format!("{password}\n")).unwrap();
    }

    fn url(&self, server: &PostgresServer) -> String {
        let url = server.url().replace("tidegate@", "app@");
        format!("{url}?password_file={}", self.0.display())
    }
}

impl Drop for PasswordFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_comes_from_its_file_and_a_wrong_one_is_told_without_it() {
    let server = server();
    let file = PasswordFile::new("password", "hunter2");
    let store = open(&file.url(&server), &options("tg"));
    assert!(take(&*store, "100/day", "k").await.unwrap().allowed());
    file.write("hunter3");
    let store = open(&file.url(&server), &options("tg"));
    let error = take(&*store, "100/day", "k").await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Denied, Ran::No), "{error}");
    let text = error.to_string();
    assert!(text.contains("password authentication failed for user \"app\""), "{text}");
    assert!(!text.contains("hunter"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_password_file_is_read_at_the_next_connection() {
    let server = server();
    let file = PasswordFile::new("changed", "hunter2");
    let store = open(&file.url(&server), &options("tg"));
    assert_eq!(take(&*store, "100/day", "k").await.unwrap().remaining(), 99);
    server.sql("ALTER ROLE app PASSWORD 'hunter3'");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'";
    server.sql(end);
    // The old password: connections that were open are gone, and no other is made.
    let error = loop {
        if let Err(error) = take(&*store, "100/day", "k").await
            && error.kind() == StoreErrorKind::Denied
        {
            break error;
        }
    };
    assert!(!error.to_string().contains("hunter"), "{error}");
    file.write("hunter3");
    assert_eq!(take(&*store, "100/day", "k").await.unwrap().remaining(), 98);
}
