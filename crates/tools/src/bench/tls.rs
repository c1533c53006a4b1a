//! TLS to a measured server, and what to do where it fails.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use tidegate::store_kit::client_config;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, OtherError};

use super::door::Door;
use crate::client::Stream;

/// Whom to trust: the authorities of a file, or those of the system.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}

impl Tls {
    pub(super) fn new(ca_file: Option<&Path>, door: Door) -> Result<Self, String> {
        let config = client_config(ca_file, None);
        let config = config.map_err(|why| why.trim_start_matches("ca: ").to_owned())?;
        let mut config = Arc::unwrap_or_clone(config);
        config.alpn_protocols = match door {
            Door::Grpc => vec![b"h2".to_vec()],
            Door::Http | Door::Proxy | Door::Auth => vec![b"http/1.1".to_vec()],
            Door::Resp | Door::Unix | Door::Embedded => Vec::new(),
        };
        Ok(Self(config.into()))
    }

    /// The certificate has to be for `host`.
    pub(super) async fn connect(&self, host: &str, stream: TcpStream) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        Ok(Box::new(TlsConnector::from(self.0.clone()).connect(name, stream).await?))
    }
}

/// What to do about a failed handshake.
pub(super) fn remedy(error: &io::Error) -> Option<&'static str> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "pass the certificate of the authority that signed it with --ca-file FILE"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for other names: write one of them into the URL",
        Error::InvalidCertificate(CertificateError::Other(why)) if is_an_authority(why) => {
            "its certificate is an authority's own, as `openssl req -x509` makes them: make it with \
             `-addext basicConstraints=critical,CA:FALSE`"
        }
        Error::InvalidMessage(_) => {
            "does it speak TLS there? Without, the URL begins with http:// or redis://"
        }
        _ => "the server's TLS and certificate have to be in order: `openssl s_client` shows them",
    })
}

/// Whether a server was refused because its certificate is that of an authority. rustls has no name for it: the text is
/// that of webpki.
fn is_an_authority(OtherError(why): &OtherError) -> bool {
    why.to_string() == "CaUsedAsEndEntity"
}
