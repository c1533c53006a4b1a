//! TLS to Redis, with the system's authorities or one of our own.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How to make a connection secret.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
}

impl Tls {
    /// Trusts the authorities in the file, or those of the system; shows a certificate if there is one, with its key.
    pub(crate) fn new(ca: Option<&Path>, own: Option<(&Path, &Path)>) -> Result<Self, String> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots(ca)?);
        let config = match own {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed("key", &error));
                config
                    .with_client_auth_cert(certificates("cert", cert)?, key?)
                    .map_err(|error| failed("cert and key", &error))?
            }
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(config)) })
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

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(file) => {
            for certificate in certificates("ca", file)? {
                roots.add(certificate).map_err(|error| failed("ca", &error))?;
            }
        }
        // Some of a system's certificates may be odd; those that are not will do.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err("ca: no authority to trust; expected ?ca=FILE in PEM".to_owned());
    }
    Ok(roots)
}

fn certificates(name: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    read.map_err(|error| failed(name, &error))
}

fn failed(name: &str, error: &dyn std::error::Error) -> String {
    format!("{name}: expected a file in PEM: {error}")
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}
