//! Test helper: a TLS client whose receive buffer is full, so that the server cannot send to it.

use std::io::ErrorKind::WouldBlock;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tidegate::{Check, Key, Op};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, client};

use super::test_server::LONG;
use crate::net::Stream;
use crate::service::AppState;

pub(crate) struct Client(client::TlsStream<UnixStream>);

/// Connects both ends and fills the socket buffer with bytes that the client skips later.
pub(crate) async fn connection() -> (Stream, Client) {
    let (server, client) = UnixStream::pair().unwrap();
    let (acceptor, connector) = tls_pair();
    let accepted = acceptor.accept(Stream::Unix(server));
    let connected = connector.connect("localhost".try_into().unwrap(), client);
    let (accepted, connected) = tokio::try_join!(accepted, connected).unwrap();
    let (Stream::Unix(socket), _) = accepted.get_ref() else { panic!("not the accepted stream") };
    while socket.try_write(&[0]).is_ok() {}
    (Stream::Tls(Box::new(accepted.into())), Client(connected))
}

/// A TLS server and client with one self-signed certificate.
fn tls_pair() -> (TlsAcceptor, TlsConnector) {
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
    // Tickets would be sent before the filler bytes, and be lost with them.
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
    /// Sends a question that takes all of `login` for `ann`, reads only once it was decided, and returns the answer.
    pub(crate) async fn ask(mut self, app: &AppState, question: &str) -> String {
        self.0.write_all(question.as_bytes()).await.unwrap();
        let decided = async {
            while could_log_in(app) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONG, decided).await.expect("never decided");
        self.skip_filler();
        let mut reply = vec![0; 4 << 10];
        let read = tokio::time::timeout(LONG, self.0.read(&mut reply)).await;
        reply.truncate(read.expect("no reply").unwrap());
        String::from_utf8(reply).unwrap()
    }

    fn skip_filler(&self) {
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
