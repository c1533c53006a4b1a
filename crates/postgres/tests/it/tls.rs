//! TLS: who is believed, and who is let in.

use tidegate::driver::StoreDriver;
use tidegate::{Ran, StoreErrorKind};
use tidegate_postgres::PostgresDriver;
use tidegate_testkit::processes::PostgresServer;

use crate::support::{open, options, take};

/// Everybody over TLS only; the test itself in the clear.
const ENCRYPTED: &str = "hostssl all app 127.0.0.0/8 trust\nhostnossl all app 127.0.0.0/8 reject\n\
    host all all 127.0.0.0/8 trust\n";

/// The name in the client's certificate is the user's.
const WITH_CERTIFICATE: &str =
    "hostssl all app 127.0.0.0/8 cert map=people\nhost all all 127.0.0.0/8 trust\n";

fn server(access: &str) -> PostgresServer {
    let server = PostgresServer::builder().tls().access(access).start();
    server.sql("CREATE ROLE app LOGIN");
    server.sql("GRANT CREATE ON DATABASE postgres TO app");
    server
}

fn url(server: &PostgresServer, parameters: &str) -> String {
    format!("{}?{parameters}", server.url().replace("tidegate@", "app@"))
}

async fn allowed(url: &str) -> Result<bool, tidegate::StoreError> {
    take(&*open(url, &options("tg")), "100/day", "k").await.map(|decision| decision.allowed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_the_named_authority_is_believed_and_no_other() {
    let (server, stranger) = (server(ENCRYPTED), PostgresServer::builder().tls().start());
    let ca = server.tls_files().ca.display();
    let secret = url(&server, &format!("sslmode=require&sslrootcert={ca}"));
    let store = open(&secret, &options("tg"));
    assert!(take(&*store, "100/day", "k").await.unwrap().allowed());
    let user = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE usename = 'app'";
    assert_eq!(server.sql(user), "t", "a connection is in the clear");
    let other_ca = stranger.tls_files().ca.display();
    for (url, word) in [
        (url(&server, &format!("sslmode=require&sslrootcert={other_ca}")), "certificate"),
        // The system's authorities have not signed it either.
        (url(&server, "sslmode=require"), "certificate"),
        (url(&server, "sslmode=disable"), "reject"),
        (secret.replace("127.0.0.1", "db.example") + "&hostaddr=127.0.0.1", "db.example"),
    ] {
        let error = allowed(&url).await.unwrap_err();
        assert!(error.to_string().contains(word), "{word}: {error}");
        assert_eq!(error.ran(), Ran::No, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_certificate_of_its_clients_gets_it() {
    let server = server(WITH_CERTIFICATE);
    let files = server.tls_files();
    let (ca, cert, key) =
        (files.ca.display(), files.client_cert.display(), files.client_key.display());
    server.allow_certificate("people", "tidegate", "app");
    let with =
        url(&server, &format!("sslmode=require&sslrootcert={ca}&sslcert={cert}&sslkey={key}"));
    assert!(allowed(&with).await.unwrap());
    let without = url(&server, &format!("sslmode=require&sslrootcert={ca}"));
    let error = allowed(&without).await.unwrap_err();
    assert_eq!((error.kind(), error.ran()), (StoreErrorKind::Denied, Ran::No), "{error}");
    assert!(error.to_string().contains("client certificate"), "{error}");
}

#[test]
fn files_of_tls_are_read_when_a_url_is_checked() {
    for (files, name) in [
        ("sslrootcert=/nowhere", "sslrootcert: expected a file in PEM"),
        ("sslcert=/nowhere&sslkey=/nowhere", "sslcert: expected a file in PEM"),
    ] {
        let url = format!("postgres://app:secret@h/app?sslmode=require&{files}");
        let error = PostgresDriver.check(&url).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("secret"), "{error}");
    }
}
