//! A client over TLS that has read nothing for so long that nothing more can be sent to it, for tests of doors.

use std::io::ErrorKind::WouldBlock;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tidegate::{Check, Key, Op};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use crate::net::Stream;
use crate::service::AppState;

/// Far more than anything here takes, also on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// The client's end.
pub(crate) struct Client(client::TlsStream<UnixStream>);

/// Both ends. The kernel takes nothing more from the server until the client reads what it is never meant to decrypt.
pub(crate) async fn connection() -> (Stream, Client) {
    let (server, client) = UnixStream::pair().unwrap();
    let (acceptor, connector) = strangers();
    let accepted = acceptor.accept(Stream::Unix(server));
    let connected = connector.connect("localhost".try_into().unwrap(), client);
    let (accepted, connected) = tokio::try_join!(accepted, connected).unwrap();
    let (Stream::Unix(socket), _) = accepted.get_ref() else { panic!("not what was accepted") };
    while socket.try_write(&[0]).is_ok() {}
    (Stream::Tls(Box::new(accepted.into())), Client(connected))
}

/// Those who shake hands with each other.
fn strangers() -> (TlsAcceptor, TlsConnector) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let provider = Arc::new(ring::default_provider());
    let key = PrivatePkcs8KeyDer::from(signing_key.serialize_der());
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key.into())
        .unwrap();
    // They would come before what clogs the connection, and be lost with it.
    server.send_tls13_tickets = 0;
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server).into(), Arc::new(client).into())
}

impl Client {
    /// What a door says to a question that takes all of `login` for `ann`, if the client only reads once it was decided.
    pub(crate) async fn hears(mut self, app: &AppState, question: &str) -> String {
        self.0.write_all(question.as_bytes()).await.unwrap();
        let decided = async {
            while could_log_in(app) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, decided).await.expect("never decided");
        self.unclog();
        let mut said = vec![0; 4 << 10];
        let read = tokio::time::timeout(LONG, self.0.read(&mut said)).await;
        said.truncate(read.expect("kept back").unwrap());
        String::from_utf8(said).unwrap()
    }

    fn unclog(&self) {
        let socket = self.0.get_ref().0;
        let mut rest = [0; 1 << 10];
        loop {
            match socket.try_read(&mut rest) {
                Ok(read) => assert!(read > 0, "closed"),
                Err(error) => return assert_eq!(error.kind(), WouldBlock),
            }
        }
    }
}

fn could_log_in(app: &AppState) -> bool {
    let check = Check { policy: "login", key: Key::One(b"ann"), cost: 1 };
    app.in_force().engine.ask(&check, Op::Peek).now().unwrap().decision.allowed()
}
