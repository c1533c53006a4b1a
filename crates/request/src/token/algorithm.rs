//! The signature algorithms of tokens.

use std::fmt;
use std::str::FromStr;

use tidegate_core::text::printable;

/// A signature algorithm, by its name in RFC 7518 and RFC 8037. There is no `none`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSA (PKCS #1 v1.5) with SHA-256.
    Rs256,
    /// RSA (PKCS #1 v1.5) with SHA-384.
    Rs384,
    /// RSA (PKCS #1 v1.5) with SHA-512.
    Rs512,
    /// RSA (PSS) with SHA-256.
    Ps256,
    /// RSA (PSS) with SHA-384.
    Ps384,
    /// RSA (PSS) with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// The kind of key that an algorithm takes. A key of one kind is never used as one of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum KeyKind {
    Secret,
    Rsa,
    P256,
    P384,
    Ed25519,
}

impl TokenAlgorithm {
    const NAMED: [(&str, Self); 12] = [
        ("HS256", Self::Hs256),
        ("HS384", Self::Hs384),
        ("HS512", Self::Hs512),
        ("RS256", Self::Rs256),
        ("RS384", Self::Rs384),
        ("RS512", Self::Rs512),
        ("PS256", Self::Ps256),
        ("PS384", Self::Ps384),
        ("PS512", Self::Ps512),
        ("ES256", Self::Es256),
        ("ES384", Self::Es384),
        ("EdDSA", Self::EdDsa),
    ];

    /// The algorithm of this name, which is case-sensitive.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm)
    }

    pub(super) const fn key_kind(self) -> KeyKind {
        match self {
            Self::Hs256 | Self::Hs384 | Self::Hs512 => KeyKind::Secret,
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => {
                KeyKind::Rsa
            }
            Self::Es256 => KeyKind::P256,
            Self::Es384 => KeyKind::P384,
            Self::EdDsa => KeyKind::Ed25519,
        }
    }
}

impl fmt::Display for TokenAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMED.iter().find(|(_, known)| known == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl FromStr for TokenAlgorithm {
    type Err = String;

    /// The error is for people.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::named(text).ok_or_else(|| {
            let (known, typed) = (Self::NAMED.map(|(name, _)| name), printable(text));
            match known.iter().find(|name| name.eq_ignore_ascii_case(text)) {
                Some(meant) => format!("unknown algorithm `{typed}`, did you mean `{meant}`?"),
                None => {
                    format!("unknown algorithm `{typed}`: expected one of {}", known.join(", "))
                }
            }
        })
    }
}
