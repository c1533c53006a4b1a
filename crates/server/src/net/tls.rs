//! TLS in front of any door. Certificate and key come from files, and are reloaded when the files change.

use std::fs::{File, Metadata};
use std::io::BufReader;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::{fmt, io};

use arc_swap::ArcSwap;
use tidegate::store_kit::open_file;
use tidegate::{Clock, SystemClock};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use tidegate_config::TlsFiles;

use crate::net::Stream;

/// How often the files are checked for changes.
const CHECK_INTERVAL_US: u64 = 2_000_000;

#[derive(Debug)]
pub(crate) struct Acceptor {
    files: TlsFiles,
    protocols: &'static [&'static [u8]],
    current: ArcSwap<Loaded>,
    next_check_us: AtomicU64,
}

/// The configuration in use, and the stamps of the files last read. Bad files are not read again until they change.
#[derive(Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    stamps: [Option<Stamp>; 3],
}

/// Changes with the content of a file, also if a symlink is pointed at another file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    changed: (i64, i64),
    inode: u64,
    bytes: u64,
}

impl Acceptor {
    /// Reads the files; an error names the file and its problem.
    pub(crate) fn new(
        files: TlsFiles,
        protocols: &'static [&'static [u8]],
    ) -> Result<Arc<Self>, String> {
        let stamps = stamps(&files);
        let loaded = Loaded { config: Arc::new(load(&files, protocols)?), stamps };
        let next_check_us = AtomicU64::new(SystemClock.steady_us() + CHECK_INTERVAL_US);
        let current = ArcSwap::from_pointee(loaded);
        Ok(Arc::new(Self { files, protocols, current, next_check_us }))
    }

    /// Does the handshake. The caller has to bound the time.
    pub(crate) async fn accept(&self, stream: Stream) -> io::Result<Stream> {
        self.reload_if_due(SystemClock.steady_us());
        let config = self.current.load().config.clone();
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        Ok(Stream::Tls(Box::new(stream.into())))
    }

    /// Reloads changed files; checks at most once per interval.
    fn reload_if_due(&self, now_us: u64) {
        let next_us = self.next_check_us.load(Relaxed);
        let mine = now_us >= next_us
            && self
                .next_check_us
                .compare_exchange(next_us, now_us + CHECK_INTERVAL_US, Relaxed, Relaxed)
                .is_ok();
        if mine {
            self.reload();
        }
    }

    /// Keeps the old certificate if the new files are bad: a half-written file must not stop the door.
    fn reload(&self) {
        let before = self.current.load();
        let stamps = stamps(&self.files);
        if stamps == before.stamps {
            return;
        }
        let config = match load(&self.files, self.protocols) {
            Ok(config) => {
                tracing::info!(cert = %self.files.cert.display(), "loaded a new certificate");
                Arc::new(config)
            }
            Err(error) => {
                tracing::warn!(%error, "kept the old certificate");
                before.config.clone()
            }
        };
        self.current.store(Arc::new(Loaded { config, stamps }));
    }
}

fn stamps(files: &TlsFiles) -> [Option<Stamp>; 3] {
    let stamp = |found: Metadata| Stamp {
        changed: (found.mtime(), found.mtime_nsec()),
        inode: found.ino(),
        bytes: found.size(),
    };
    [Some(&files.cert), Some(&files.key), files.client_ca.as_ref()]
        .map(|path| std::fs::metadata(path?).ok().map(stamp))
}

fn load(files: &TlsFiles, protocols: &[&[u8]]) -> Result<ServerConfig, String> {
    let certs = certificates(&files.cert)?;
    // Without the parser's error, which could repeat parts of the key.
    let key = PrivateKeyDer::from_pem_reader(open(&files.key, "no private key")?);
    let key = key.map_err(|_| file_error(&files.key, "no private key: expected PEM"))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| file_error(&files.cert, &error))?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(certificates(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(
                verifier.build().map_err(|error| file_error(path, &error))?,
            )
        }
    };
    let mut config = builder
        .with_single_cert(certs, key)
        .map_err(|error| file_error(&files.cert, &format!("does not match the key: {error}")))?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(config)
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let file = open(path, "no certificate")?;
    let certs = CertificateDer::pem_reader_iter(file).collect::<Result<Vec<_>, _>>();
    let certs = certs.map_err(|error| file_error(path, &format!("no certificate: {error}")))?;
    if certs.is_empty() {
        return Err(file_error(path, "no certificate: expected PEM"));
    }
    Ok(certs)
}

fn open(path: &Path, missing: &str) -> Result<BufReader<File>, String> {
    let opened = open_file(path).map(BufReader::new);
    opened.map_err(|error| file_error(path, &format!("{missing}: {error}")))
}

fn file_error(path: &Path, what: &(impl fmt::Display + ?Sized)) -> String {
    format!("{}: {what}", path.display())
}

#[cfg(test)]
mod tests;
