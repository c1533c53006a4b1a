//! TLS to Redis, with the system's authorities or one of our own.

use std::path::Path;
use std::{fmt, io};

use tidegate::store_kit::client_config;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// How to make a connection secret.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
}

impl Tls {
    /// Trusts the authorities in the file, or those of the system; shows a certificate if there is one, with its key.
    pub(crate) fn new(ca: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Self, String> {
        Ok(Self { connector: TlsConnector::from(client_config(ca, own)?) })
    }

    pub(crate) async fn connect(
        &self,
        host: &str,
        tcp: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.connector.connect(name, tcp).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}
