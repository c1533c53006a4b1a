//! TLS to upstreams and probes, verified with the authorities of the system or of a file.

use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::net::Stream;
use crate::net::tls::certificates;

#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    roots: Arc<RootCertStore>,
}

impl Tls {
    /// `field` is the key of the authorities, which an error begins with.
    pub(crate) fn new(ca_file: Option<&Path>, field: &str) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        match ca_file {
            Some(path) => {
                let found = certificates(path).map_err(|why| format!("{field}: {why}"))?;
                if roots.add_parsable_certificates(found).0 == 0 {
                    let path = path.display();
                    return Err(format!("{field}: {path}: no certificate of an authority"));
                }
            }
            // Certificates of the system that cannot be parsed are skipped.
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(format!(
                "this system has no certificate authority for https://: set `{field}`"
            ));
        }
        let roots = Arc::new(roots);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), roots })
    }

    pub(crate) async fn connect(&self, host: &str, stream: Stream) -> io::Result<Stream> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.connector.connect(name, stream).await?;
        Ok(Stream::Tls(Box::new(stream.into())))
    }
}

/// What to do about a certificate that is not trusted, by the text of the error: rustls hides the type of one of them.
pub(crate) fn remedy(error: &io::Error) -> Option<&'static str> {
    let text = error.to_string();
    [
        (
            "CaUsedAsEndEntity",
            "the certificate is an authority's own: make it with -addext basicConstraints=critical,CA:FALSE",
        ),
        ("UnknownIssuer", "name the certificate of the authority that signed it in `ca_file`"),
    ]
    .into_iter()
    .find_map(|(cause, remedy)| text.contains(cause).then_some(remedy))
}

impl PartialEq for Tls {
    /// Whether the same authorities are trusted, in any order.
    fn eq(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.roots.roots, &other.roots.roots);
        ours.len() == theirs.len() && ours.iter().all(|root| theirs.contains(root))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(…)")
    }
}
