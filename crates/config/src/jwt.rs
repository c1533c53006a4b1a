//! Tokens: which of them are right, and where the keys are that verify them.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use tidegate::store_kit::open_file;
use tidegate_request::{TokenAlgorithm, TokenRules, TokenVerifier};

use super::node::Cursor;
use super::secret::named_file;
use super::text;
use super::text::OneOrMany;

/// Room for a hundred keys.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What to do instead of a URL of keys.
pub(crate) const FETCHES_NOTHING: &str = "tidegate fetches nothing. Write `jwks_file: /etc/tidegate/jwks.json`, and let a \
                                          timer write that file and reload";

/// The keys of an issuer, in a file that is read later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenKeys {
    path: PathBuf,
    form: KeyForm,
    rules: TokenRules,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeyForm {
    /// PEM, or a secret.
    Keys,
    /// A JSON Web Key Set.
    Set,
}

/// Checks the section.
pub(crate) fn token_keys(text: &text::Jwt, cursor: &Cursor<'_>) -> Option<TokenKeys> {
    let file = match (&text.keys_file, &text.jwks_file) {
        (Some(url), None) | (None, Some(url)) if url.contains("://") => {
            let field = if text.keys_file.is_some() { "keys_file" } else { "jwks_file" };
            cursor.field(field).reject(format!("is a URL: {FETCHES_NOTHING}"))
        }
        (Some(path), None) => {
            let path = named_file(path, &cursor.field("keys_file"));
            path.map(|path| (path, KeyForm::Keys))
        }
        (None, Some(path)) => Some((Path::new(path), KeyForm::Set)),
        (Some(_), Some(_)) => {
            cursor.field("jwks_file").reject("and `keys_file` are both given: give one of them")
        }
        (None, None) => cursor.reject("has no keys: give `keys_file` or `jwks_file`"),
    };
    let at = cursor.field("algorithms");
    let algorithm = |(index, name): (usize, &String)| {
        let at = match &text.algorithms {
            OneOrMany::One(_) => at.clone(),
            OneOrMany::Many(_) => at.item(index),
        };
        at.accept(name.parse::<TokenAlgorithm>())
    };
    let named = text.algorithms.as_slice();
    let algorithms: Vec<_> = named.iter().enumerate().filter_map(algorithm).collect();
    let all =
        |given: &Option<OneOrMany>| given.as_ref().map_or(Vec::new(), |it| it.as_slice().to_vec());
    if algorithms.len() < named.len() {
        return None;
    }
    let rules = TokenRules::new(algorithms, all(&text.issuer), all(&text.audience));
    let (rules, (path, form)) = (at.accept(rules)?, file?);
    Some(TokenKeys { path: path.into(), form, rules })
}

impl TokenKeys {
    /// The name of its key in the section, and the file.
    pub fn file(&self) -> (&'static str, &Path) {
        let field = match self.form {
            KeyForm::Keys => "keys_file",
            KeyForm::Set => "jwks_file",
        };
        (field, &self.path)
    }

    /// Reads the file. An error names the key of the configuration, and nothing of what is in the file.
    pub fn read(&self) -> Result<TokenVerifier, String> {
        let with: fn(&[u8], TokenRules) -> _ = match self.form {
            KeyForm::Keys => TokenVerifier::with_keys,
            KeyForm::Set => TokenVerifier::with_key_set,
        };
        let (field, path) = self.file();
        let path = path.display();
        let unread = |why: &dyn fmt::Display| format!("jwt.{field}: cannot read {path}: {why}");
        let file = open_file(&self.path).map_err(|error| unread(&error))?;
        let mut bytes = Vec::new();
        // One byte more than allowed, to detect a file that is too long.
        let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| unread(&error))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(unread(&"it is longer than 64 KiB"));
        }
        with(&bytes, self.rules.clone()).map_err(|why| format!("jwt.{field}: {path} {why}"))
    }
}
