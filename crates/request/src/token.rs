//! JSON Web Tokens (RFC 7519): who a request is from, as an issuer has signed it.
//!
//! A token that is not right in every way counts as none. Only its signature makes a claim worth anything, so nothing of a
//! token is used before that is verified, except the names of its algorithm and key, by which nothing but the key is chosen.

mod algorithm;
mod key;

use std::fmt;
use std::time::Duration;

use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};
use base64::{Engine as _, alphabet};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value};
use tidegate_core::Timestamp;

use self::algorithm::KeyKind;
pub use self::algorithm::TokenAlgorithm;
use self::key::VerifyingKey;
use crate::json::scalar;

/// Longer than tokens with hundreds of claims. Bounds what a made-up one costs.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// How far the clocks of an issuer and of this node may differ.
const LEEWAY: Duration = Duration::from_mins(1);
/// Whatever the last character has beyond the last byte.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));
/// Far deeper than claims are nested.
const DOTS_MAX: usize = 8;

/// What a token has to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRules {
    algorithms: Vec<TokenAlgorithm>,
    issuers: Vec<String>,
    audiences: Vec<String>,
}

/// Verifies tokens.
pub struct TokenVerifier {
    rules: TokenRules,
    keys: Vec<VerifyingKey>,
}

/// Why a token counts as none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadToken {
    /// It is longer than 8 KiB.
    TooLong,
    /// It is not three parts with JSON in them, has critical extensions, or a time that is no number.
    Malformed,
    /// Its algorithm is not one of those that are accepted; `none` never is.
    Algorithm,
    /// There is no key of its name for its algorithm, or there are several and it names none.
    UnknownKey,
    /// Its signature is not of the key.
    Signature,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is of another issuer.
    Issuer,
    /// It is for another audience.
    Audience,
}

/// The claims of a token that was verified.
#[derive(Debug)]
pub(crate) struct Claims(Map<String, Value>);

/// The name of a claim: `sub`, or `realm.tier` for one inside another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Claim(String);

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl TokenRules {
    /// Tokens signed with one of the algorithms, of one of the issuers and for one of the audiences; without any, of and for
    /// whomever. The error is for people.
    pub fn new(
        algorithms: Vec<TokenAlgorithm>,
        issuers: Vec<String>,
        audiences: Vec<String>,
    ) -> Result<Self, String> {
        let is_secret = |it: &TokenAlgorithm| it.key_kind() == KeyKind::Secret;
        let secret = algorithms.iter().find(|it| is_secret(it));
        let public = algorithms.iter().find(|it| !is_secret(it));
        match (secret, public) {
            (None, None) => {
                Err("is empty: name those that your issuer signs with, like RS256".to_owned())
            }
            (Some(secret), Some(public)) => Err(format!(
                "{secret} needs a secret and {public} a public key: name algorithms of one kind, or whoever knows the \
                 public key could sign with it"
            )),
            _ => Ok(Self { algorithms, issuers, audiences }),
        }
    }
}

impl TokenVerifier {
    /// With the text of a file: public keys in PEM or, for HMAC, the secret. The error is for people and repeats none of it.
    pub fn with_keys(text: &[u8], rules: TokenRules) -> Result<Self, String> {
        let keys = VerifyingKey::read_file(text, &rules.algorithms)?;
        Ok(Self { rules, keys })
    }

    /// With the text of a JSON Web Key Set. The error is for people and repeats none of it.
    pub fn with_key_set(text: &[u8], rules: TokenRules) -> Result<Self, String> {
        let keys = VerifyingKey::read_set(text, &rules.algorithms)?;
        Ok(Self { rules, keys })
    }

    /// The claims of a token.
    pub(crate) fn verify(&self, token: &[u8], now: Timestamp) -> Result<Claims, BadToken> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(BadToken::TooLong);
        }
        let mut parts = token.split(|byte| *byte == b'.');
        let parts = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(header), Some(payload), Some(signature), None) = parts else {
            return Err(BadToken::Malformed);
        };
        let signed = &token[..header.len() + 1 + payload.len()];
        let header: Header = decoded(header)?;
        if header.crit.is_some() {
            return Err(BadToken::Malformed);
        }
        let algorithm = TokenAlgorithm::named(&header.alg);
        let algorithm = algorithm.filter(|it| self.rules.algorithms.contains(it));
        let algorithm = algorithm.ok_or(BadToken::Algorithm)?;
        let signature = lenient(signature).ok_or(BadToken::Malformed)?;
        let fits = |key: &&VerifyingKey| key.algorithm == algorithm;
        // A token that names no key must not cost a verification with each of several.
        let is_only = self.keys.iter().filter(fits).count() == 1;
        let is_meant = |key: &&VerifyingKey| match (&key.name, &header.kid) {
            (Some(name), Some(meant)) => name == meant,
            (Some(_), None) => is_only,
            (None, _) => true,
        };
        let mut keys = self.keys.iter().filter(fits).filter(is_meant).peekable();
        if keys.peek().is_none() {
            return Err(BadToken::UnknownKey);
        }
        if !keys.any(|key| key.verifies(signed, &signature)) {
            return Err(BadToken::Signature);
        }
        let claims = Claims(decoded(payload)?);
        self.rules.check(&claims, now)?;
        Ok(claims)
    }
}

impl TokenRules {
    fn check(&self, Claims(claims): &Claims, now: Timestamp) -> Result<(), BadToken> {
        let now = Duration::from_micros(now.as_micros());
        let seconds = |name| {
            let time = claims.get(name).map(|time| time.as_f64().ok_or(BadToken::Malformed));
            time.transpose()
        };
        if seconds("exp")?.is_some_and(|end| end <= now.saturating_sub(LEEWAY).as_secs_f64()) {
            return Err(BadToken::Expired);
        }
        if seconds("nbf")?.is_some_and(|begin| begin > (now + LEEWAY).as_secs_f64()) {
            return Err(BadToken::NotYetValid);
        }
        let is_one_of = |name: &str, accepted: &[String]| {
            let is_accepted = |it: &Value| accepted.iter().any(|one| it.as_str() == Some(one));
            accepted.is_empty()
                || match claims.get(name) {
                    Some(Value::Array(several)) if name == "aud" => several.iter().any(is_accepted),
                    one => one.is_some_and(is_accepted),
                }
        };
        if !is_one_of("iss", &self.issuers) {
            return Err(BadToken::Issuer);
        }
        if !is_one_of("aud", &self.audiences) {
            return Err(BadToken::Audience);
        }
        Ok(())
    }
}

fn decoded<T: DeserializeOwned>(part: &[u8]) -> Result<T, BadToken> {
    let json = URL_SAFE_NO_PAD.decode(part).map_err(|_| BadToken::Malformed)?;
    serde_json::from_slice(&json).map_err(|_| BadToken::Malformed)
}

/// A signature as the most lenient servers read it, which skip what is not in the alphabet. Nothing signs its spelling, so
/// that another one would make a token that they accept count as none.
fn lenient(signature: &[u8]) -> Option<Vec<u8>> {
    let plain = signature.iter().filter_map(|byte| match byte {
        b'+' => Some(b'-'),
        b'/' => Some(b'_'),
        byte => Some(*byte).filter(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte)),
    });
    LENIENT.decode(plain.collect::<Vec<u8>>()).ok()
}

impl Claims {
    /// The value of a claim; `None` if it is not one text, whole number or truth value.
    pub(crate) fn get(&self, Claim(name): &Claim) -> Option<String> {
        scalar(find(&self.0, name)?)
    }
}

/// A claim by its whole name; else the part behind a dot inside the one before it.
fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let inside = |(dot, _)| find(claims.get(&name[..dot])?.as_object()?, &name[dot + 1..]);
    claims.get(name).or_else(|| name.match_indices('.').find_map(inside))
}

impl Claim {
    /// `None` if it is hardly a name: no issuer puts spaces around one, and a pointer or a path of JSON would match nothing.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let is_path = ["/", "$.", "$["].iter().any(|start| text.starts_with(start));
        let is_one = !text.is_empty() && text.trim() == text && !is_path;
        (is_one && text.matches('.').count() <= DOTS_MAX).then(|| Self(text.to_owned()))
    }
}

impl BadToken {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::TooLong,
        Self::Malformed,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Expired,
        Self::NotYetValid,
        Self::Issuer,
        Self::Audience,
    ];

    /// Its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLong => "too_long",
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
        }
    }
}

impl fmt::Debug for TokenVerifier {
    /// Does not print a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenVerifier").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
