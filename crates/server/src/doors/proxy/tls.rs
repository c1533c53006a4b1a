//! TLS to upstreams: known by the system's authorities, or by those of a file.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::listen::Stream;
use crate::tls::certificates;

/// How connections to upstreams are made secret.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match ca_file {
            Some(path) => {
                roots.add_parsable_certificates(certificates(path)?);
            }
            // Some of a system's certificates may be odd; those that are not will do.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(
                "no authority to know https:// upstreams by: give `proxy.ca_file`".to_owned()
            );
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(super) async fn connect(&self, host: &str, stream: Stream) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.0.connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(stream.into())))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}
