//! A test certificate authority, with one certificate for the server and one for its clients.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::scratch::PrivateDir;

/// The name in the certificate of clients.
pub(super) const CLIENT_NAME: &str = "tidegate";

/// The PEM files that a TLS client needs.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub ca: PathBuf,
    pub client_cert: PathBuf,
    pub client_key: PathBuf,
}

impl TlsFiles {
    /// Writes the files of the client and the server, and returns the configuration of the server.
    pub(super) fn create(dir: &PrivateDir, clients_need_one: bool) -> (Self, String) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Otherwise all certificates have the same subject, and OpenSSL treats each as self-signed.
        params.distinguished_name.push(DnType::CommonName, "tidegate test authority");
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let write = |name: &str, pem: String| {
            let path = dir.file(name);
            fs::write(&path, pem).unwrap();
            path
        };
        let issue = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
            let mut params = CertificateParams::new(names).unwrap();
            // PostgreSQL takes the name of a client's certificate for that of its user.
            params.distinguished_name.push(DnType::CommonName, name);
            let cert = params.signed_by(&key, &ca).unwrap();
            (
                write(&format!("{name}.pem"), cert.pem()),
                write(&format!("{name}.key"), key.serialize_pem()),
            )
        };
        issue("server");
        let (client_cert, client_key) = issue(CLIENT_NAME);
        let files = Self { ca: write("ca.pem", ca.pem()), client_cert, client_key };
        let config = format!(
            "tls-cert-file server.pem\ntls-key-file server.key\ntls-ca-cert-file ca.pem\n\
             tls-auth-clients {}\n",
            if clients_need_one { "yes" } else { "no" },
        );
        (files, config)
    }
}
