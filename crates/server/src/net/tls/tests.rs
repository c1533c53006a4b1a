use std::fs;
use std::path::PathBuf;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use tidegate_config::Door;

use super::*;

/// A folder of our own, gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> TlsFiles {
        TlsFiles { cert: self.0.join("cert.pem"), key: self.0.join("key.pem"), client_ca: None }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn pair() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

#[test]
fn files_that_do_not_fit_are_told_apart() {
    let folder = Folder::new("tls-files");
    let files = folder.files();
    let ((cert, key), (_, other_key)) = (pair(), pair());
    for (cert, key, expected) in [
        (None, Some(key.as_str()), "cert.pem: no certificate"),
        (Some(""), Some(&key), "cert.pem: no certificate"),
        (Some("nonsense"), Some(&key), "cert.pem: no certificate"),
        (Some(&cert), None, "key.pem: no private key"),
        (Some(&cert), Some("nonsense"), "key.pem: no private key"),
        (Some(&cert), Some(&cert), "key.pem: no private key"),
        (Some(&cert), Some(&other_key), "not with this key"),
    ] {
        for (path, text) in [(&files.cert, cert), (&files.key, key)] {
            match text {
                Some(text) => fs::write(path, text).unwrap(),
                None => drop(fs::remove_file(path)),
            }
        }
        let error = Acceptor::new(files.clone(), Door::Http.alpn()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_bad_pair_leaves_the_old_one_in_force_and_a_good_one_replaces_it() {
    let folder = Folder::new("tls-reload");
    let files = folder.files();
    let write = |cert: &str, key: &str| {
        fs::write(&files.cert, cert).unwrap();
        fs::write(&files.key, key).unwrap();
    };
    let (first, second) = (pair(), pair());
    write(&first.0, &first.1);
    let acceptor = Acceptor::new(files.clone(), Door::Http.alpn()).unwrap();
    let config = || acceptor.current.load().config.clone();
    let old = config();
    acceptor.reload();
    assert!(Arc::ptr_eq(&old, &config()), "nothing has changed");
    write(&format!("{}\n", second.0), &first.1);
    acceptor.reload();
    assert!(Arc::ptr_eq(&old, &config()), "half of a new pair");
    write(&format!("{}\n", second.0), &format!("{}\n", second.1));
    acceptor.reload();
    assert!(!Arc::ptr_eq(&old, &config()), "a new pair");
}

#[test]
fn files_are_looked_at_by_a_clock_that_nobody_sets() {
    let folder = Folder::new("tls-look");
    let files = folder.files();
    // Also the length of a file changes, however short a time has passed.
    let write = |(cert, key): (String, String), end: &str| {
        fs::write(&files.cert, cert + end).unwrap();
        fs::write(&files.key, key + end).unwrap();
    };
    write(pair(), "");
    let acceptor = Acceptor::new(files.clone(), Door::Http.alpn()).unwrap();
    let config = || acceptor.current.load().config.clone();
    let (old, began_us) = (config(), acceptor.next_check_us.load(Relaxed) - CHECK_INTERVAL_US);
    assert!(began_us <= SystemClock.steady_us(), "by another clock");
    write(pair(), "\n");
    acceptor.reload_if_due(began_us + CHECK_INTERVAL_US - 1);
    assert!(Arc::ptr_eq(&old, &config()), "too early");
    acceptor.reload_if_due(began_us + CHECK_INTERVAL_US);
    assert!(!Arc::ptr_eq(&old, &config()), "a new pair");
}
