//! Why a setting of the layer was not taken.

use std::fmt;

/// A setting that makes no sense.
///
/// ```
/// use tidegate::tower::{ClientIp, Key, SetupError};
///
/// let (text, problem) = ("10.0.0.0/33".to_owned(), "the prefix is not a number from 0 to 32");
/// let error = ClientIp::new().trust("10.0.0.0/33").err();
/// assert_eq!(error, Some(SetupError::Network { text, problem }));
///
/// let error = SetupError::HeaderName("x api key".to_owned());
/// assert_eq!(error.to_string(), "`x api key` cannot be the name of a header");
/// assert_eq!(Key::header("x api key").err(), Some(error));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// A network that is not written like `10.0.0.0/8`.
    Network {
        /// What was read.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A header name with characters that no header name has.
    HeaderName(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network { text, problem } => {
                write!(f, "network `{}`: {problem}", text.escape_debug())
            }
            Self::HeaderName(name) => {
                write!(f, "`{}` cannot be the name of a header", name.escape_debug())
            }
        }
    }
}

impl std::error::Error for SetupError {}
