//! TLS to a store, with the system's authorities or one of one's own.

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::named_file::open_file;

/// The TLS settings of a store's client: trusts the authorities in the file `ca`, or those of the system; shows a
/// certificate if there is one, with its key.
///
/// ```
/// use std::path::Path;
/// use tidegate::store_kit::client_config;
///
/// let error = client_config(Some(Path::new("/no/such/file")), None).unwrap_err();
/// assert!(error.starts_with("ca: expected a file in PEM"), "{error}");
/// ```
pub fn client_config(
    ca: Option<&Path>,
    own: Option<(&Path, &Path)>,
) -> Result<Arc<ClientConfig>, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(ca)?);
    let config = match own {
        None => config.with_no_client_auth(),
        Some((cert, key)) => {
            let certificates = certificates("cert", cert)?;
            let key = open_file(key).map_err(|error| failed("key", &error))?;
            let key = PrivateKeyDer::from_pem_reader(BufReader::new(key));
            let key = key.map_err(|error| failed("key", &error))?;
            config
                .with_client_auth_cert(certificates, key)
                .map_err(|error| failed("cert and key", &error))?
        }
    };
    Ok(Arc::new(config))
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
        return Err("ca: no authority to trust: expected a file in PEM".to_owned());
    }
    Ok(roots)
}

fn certificates(name: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = open_file(file).map_err(|error| failed(name, &error))?;
    let read: Result<_, _> = CertificateDer::pem_reader_iter(BufReader::new(file)).collect();
    read.map_err(|error| failed(name, &error))
}

fn failed(name: &str, error: &dyn std::error::Error) -> String {
    format!("{name}: expected a file in PEM: {error}")
}
