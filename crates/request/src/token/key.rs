//! Keys that verify signatures, read from PEM, from a secret, or from a JSON Web Key Set.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, VerificationAlgorithm};
use ring::{hmac, signature as sig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{SubjectPublicKeyInfoDer, alg_id};
use serde::Deserialize;

use super::algorithm::{KeyKind, TokenAlgorithm};
use crate::json::BYTE_ORDER_MARK;

/// A token is tried with each key that fits and has no name.
const KEYS_MAX: usize = 16;
/// RFC 7518 asks for as many bytes as the shortest hash has.
const SECRET_BYTES_MIN: usize = 32;
/// Of a modulus: from 2048 to 8192 bits, which is what `ring` accepts.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// A key for one algorithm.
pub(super) struct VerifyingKey {
    /// Its name in a key set.
    pub(super) name: Option<String>,
    pub(super) algorithm: TokenAlgorithm,
    material: Material,
}

enum Material {
    Secret(hmac::Key),
    Rsa { parameters: &'static RsaParameters, modulus: Vec<u8>, exponent: Vec<u8> },
    Curve { algorithm: &'static dyn VerificationAlgorithm, point: Vec<u8> },
}

/// A key as it is written, for any algorithm of its kind.
enum Written {
    Secret(Vec<u8>),
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    Curve(KeyKind, Vec<u8>),
}

impl VerifyingKey {
    /// Whether the signature is of this key.
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Secret(key) => hmac::verify(key, signed, signature).is_ok(),
            Material::Rsa { parameters, modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, signed, signature).is_ok()
            }
            Material::Curve { algorithm, point } => {
                let key = signature::UnparsedPublicKey::new(*algorithm, point);
                key.verify(signed, signature).is_ok()
            }
        }
    }

    /// The public keys of a PEM file, or the secret that a file consists of. An error does not repeat any of it.
    pub(super) fn read_file(
        text: &[u8],
        algorithms: &[TokenAlgorithm],
    ) -> Result<Vec<Self>, String> {
        let is_pem = text.windows(10).any(|window| window == b"-----BEGIN");
        if algorithms.iter().any(|it| it.key_kind() == KeyKind::Secret) {
            // Whoever knows a public key could sign with it.
            if is_pem {
                return Err("has a key in PEM, and HS algorithms need a secret".to_owned());
            }
            if let Some(what) = not_a_secret(text) {
                return Err(what.to_owned());
            }
            let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |at| at + 1);
            return Self::all([(None, None, Written::secret(&text[..end])?)], algorithms);
        }
        let expected = "has no public key: expected PEM, `-----BEGIN PUBLIC KEY-----`";
        let mut found = Vec::new();
        for block in SubjectPublicKeyInfoDer::pem_slice_iter(text) {
            let block = block.map_err(|_| expected.to_owned())?;
            let unknown =
                "has a public key that is not RSA of 2048 to 8192 bits, P-256, P-384 or Ed25519";
            let key = Written::from_der(&block).ok_or(unknown)?;
            found.push((None, None, key));
        }
        if found.is_empty() {
            return Err(no_public_key(text).unwrap_or(expected).to_owned());
        }
        Self::all(found, algorithms)
    }

    /// The keys of a JSON Web Key Set (RFC 7517) that are for these algorithms. An error does not repeat any of it.
    pub(super) fn read_set(
        text: &[u8],
        algorithms: &[TokenAlgorithm],
    ) -> Result<Vec<Self>, String> {
        let not_a_set = "is not a JSON Web Key Set: expected {\"keys\":[{\"kty\":…}]}";
        let set: KeySet = serde_json::from_slice(text).map_err(|_| not_a_set)?;
        let mut found = Vec::new();
        for (index, key) in set.keys.into_iter().enumerate() {
            let is_for_signatures = key.usage.as_deref().is_none_or(|usage| usage == "sig");
            let Some(kind) = key.kind().filter(|_| is_for_signatures) else { continue };
            if !algorithms.iter().any(|it| it.key_kind() == kind) {
                continue;
            }
            let own = match key.alg.as_deref().map(TokenAlgorithm::named) {
                // A key for something else, like encryption.
                Some(None) => continue,
                own => own.flatten(),
            };
            let written = key.written(kind).map_err(|why| format!("keys[{index}] {why}"))?;
            found.push((key.kid, own, written));
        }
        Self::all(found, algorithms)
    }

    /// Each key for each algorithm that it can be for: its own if it names one.
    fn all(
        found: impl IntoIterator<Item = (Option<String>, Option<TokenAlgorithm>, Written)>,
        algorithms: &[TokenAlgorithm],
    ) -> Result<Vec<Self>, String> {
        let (mut keys, mut count) = (Vec::new(), 0);
        for (name, own, written) in found {
            count += 1;
            for algorithm in
                algorithms.iter().copied().filter(|it| own.is_none_or(|own| own == *it))
            {
                let material = written.for_algorithm(algorithm);
                keys.extend(material.map(|material| Self {
                    name: name.clone(),
                    algorithm,
                    material,
                }));
            }
        }
        if count > KEYS_MAX {
            return Err(format!("has {count} keys: expected at most {KEYS_MAX}"));
        }
        if let Some(unused) =
            algorithms.iter().find(|it| keys.iter().all(|key| key.algorithm != **it))
        {
            return Err(format!("has no key for {unused}: add one, or leave the algorithm out"));
        }
        Ok(keys)
    }
}

impl Written {
    fn secret(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(format!(
                "has a secret of {} bytes: expected at least {SECRET_BYTES_MIN}, or it can be guessed",
                bytes.len()
            ));
        }
        Ok(Self::Secret(bytes.to_vec()))
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let [modulus, exponent] = [modulus, exponent].map(without_zeros);
        let fits = RSA_BYTES.contains(&modulus.len()) && (1..=8).contains(&exponent.len());
        fits.then(|| Self::Rsa { modulus: modulus.to_vec(), exponent: exponent.to_vec() })
    }

    /// A `SubjectPublicKeyInfo` (RFC 5280).
    fn from_der(der: &[u8]) -> Option<Self> {
        let (info, _) = tagged(der, 0x30)?;
        let (algorithm, rest) = tagged(info, 0x30)?;
        // The first byte of a bit string is the number of unused bits.
        let (&[0, ref key @ ..], _) = tagged(rest, 0x03)? else { return None };
        let curve = |kind, bytes| (key.len() == bytes).then(|| Self::Curve(kind, key.to_vec()));
        match algorithm {
            it if it == &*alg_id::RSA_ENCRYPTION => {
                let (numbers, _) = tagged(key, 0x30)?;
                let (modulus, rest) = tagged(numbers, 0x02)?;
                Self::rsa(modulus, tagged(rest, 0x02)?.0)
            }
            it if it == &*alg_id::ECDSA_P256 => curve(KeyKind::P256, 65),
            it if it == &*alg_id::ECDSA_P384 => curve(KeyKind::P384, 97),
            it if it == &*alg_id::ED25519 => curve(KeyKind::Ed25519, 32),
            _ => None,
        }
    }

    /// `None` if the algorithm takes keys of another kind.
    fn for_algorithm(&self, algorithm: TokenAlgorithm) -> Option<Material> {
        use TokenAlgorithm as Is;
        match self {
            Self::Secret(secret) => {
                let hash = match algorithm {
                    Is::Hs256 => hmac::HMAC_SHA256,
                    Is::Hs384 => hmac::HMAC_SHA384,
                    Is::Hs512 => hmac::HMAC_SHA512,
                    _ => return None,
                };
                Some(Material::Secret(hmac::Key::new(hash, secret)))
            }
            Self::Rsa { modulus, exponent } => {
                let parameters = match algorithm {
                    Is::Rs256 => &sig::RSA_PKCS1_2048_8192_SHA256,
                    Is::Rs384 => &sig::RSA_PKCS1_2048_8192_SHA384,
                    Is::Rs512 => &sig::RSA_PKCS1_2048_8192_SHA512,
                    Is::Ps256 => &sig::RSA_PSS_2048_8192_SHA256,
                    Is::Ps384 => &sig::RSA_PSS_2048_8192_SHA384,
                    Is::Ps512 => &sig::RSA_PSS_2048_8192_SHA512,
                    _ => return None,
                };
                let (modulus, exponent) = (modulus.clone(), exponent.clone());
                Some(Material::Rsa { parameters, modulus, exponent })
            }
            Self::Curve(kind, point) => {
                let verification: &'static dyn VerificationAlgorithm = match (kind, algorithm) {
                    (KeyKind::P256, Is::Es256) => &sig::ECDSA_P256_SHA256_FIXED,
                    (KeyKind::P384, Is::Es384) => &sig::ECDSA_P384_SHA384_FIXED,
                    (KeyKind::Ed25519, Is::EdDsa) => &sig::ED25519,
                    _ => return None,
                };
                Some(Material::Curve { algorithm: verification, point: point.clone() })
            }
        }
    }
}

const JSON: &str = "is JSON: give a key set as `jwks_file`";

/// Where the text of a file begins.
fn begin(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).trim_ascii_start()
}

/// What a file is that somebody may take for a secret, although others may know it.
fn not_a_secret(text: &[u8]) -> Option<&'static str> {
    let begin = begin(text);
    // A value of more than 255 bytes: a certificate, or a private key.
    let is_der = text.starts_with(&[0x30, 0x82]) || Written::from_der(text).is_some();
    if begin.starts_with(b"{") {
        Some(JSON)
    } else if is_der {
        Some("has a key or a certificate in DER, and HS algorithms need a secret")
    } else if ["ssh-", "ecdsa-sha2-"].iter().any(|name| begin.starts_with(name.as_bytes())) {
        Some("has a public key of SSH, and HS algorithms need a secret")
    } else {
        None
    }
}

/// What a file is that has no public key as we read them, and how to make one of it.
fn no_public_key(text: &[u8]) -> Option<&'static str> {
    // The first that is there: `RSA PRIVATE KEY` and `EC PRIVATE KEY` are private keys, too.
    const KINDS: [(&[u8], &str); 3] = [
        (
            b"PRIVATE KEY-----",
            "has a private key, which only the issuer needs: `openssl pkey -in FILE -pubout` prints its public key",
        ),
        (
            b"-----BEGIN CERTIFICATE-----",
            "has a certificate: `openssl x509 -in FILE -pubkey -noout` prints its public key",
        ),
        (
            b"-----BEGIN RSA PUBLIC KEY-----",
            "has a key in PKCS#1: `openssl rsa -RSAPublicKey_in -in FILE -pubout` prints it as `PUBLIC KEY`",
        ),
    ];
    if begin(text).starts_with(b"{") {
        return Some(JSON);
    }
    let has = |label: &[u8]| text.windows(label.len()).any(|window| window == label);
    KINDS.into_iter().find(|(label, _)| has(label)).map(|(_, what)| what)
}

/// The content of a DER value with this tag, and what follows it.
fn tagged(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), &rest[2..]),
        _ => return None,
    };
    (found == tag && length <= rest.len()).then(|| rest.split_at(length))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let first = number.iter().position(|byte| *byte != 0).unwrap_or(number.len());
    &number[first..]
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Jwk>,
}

/// One key of a set. What is not needed is not read.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    crv: Option<String>,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    k: Option<String>,
}

impl Jwk {
    /// `None` if no algorithm takes it.
    fn kind(&self) -> Option<KeyKind> {
        match (self.kty.as_str(), self.crv.as_deref()) {
            ("oct", _) => Some(KeyKind::Secret),
            ("RSA", _) => Some(KeyKind::Rsa),
            ("EC", Some("P-256")) => Some(KeyKind::P256),
            ("EC", Some("P-384")) => Some(KeyKind::P384),
            ("OKP", Some("Ed25519")) => Some(KeyKind::Ed25519),
            _ => None,
        }
    }

    fn written(&self, kind: KeyKind) -> Result<Written, String> {
        let bytes = |name: &str, text: &Option<String>| {
            let bytes = text.as_ref().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
            bytes.ok_or_else(|| format!("has no `{name}` in base64url"))
        };
        let curve = |point: Vec<u8>, length| {
            let fits = point.len() == length;
            fits.then_some(Written::Curve(kind, point))
                .ok_or("is not a point of its curve".to_owned())
        };
        let point =
            || Ok::<_, String>([vec![4], bytes("x", &self.x)?, bytes("y", &self.y)?].concat());
        match kind {
            KeyKind::Secret => Written::secret(&bytes("k", &self.k)?),
            KeyKind::Rsa => Written::rsa(&bytes("n", &self.n)?, &bytes("e", &self.e)?)
                .ok_or("is not of 2048 to 8192 bits".to_owned()),
            KeyKind::P256 => curve(point()?, 65),
            KeyKind::P384 => curve(point()?, 97),
            KeyKind::Ed25519 => curve(bytes("x", &self.x)?, 32),
        }
    }
}
