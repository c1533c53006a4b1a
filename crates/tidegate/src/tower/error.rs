//! Why a setting of the layer was not taken.

use std::fmt;

use crate::cidr::CidrError;

/// A setting that makes no sense.
///
/// ```
/// use tidegate::Cidr;
/// use tidegate::tower::{ClientIp, Key, SetupError};
///
/// let error = "10.0.0.0/33".parse::<Cidr>().err().map(SetupError::Network);
/// assert!(error.is_some());
/// assert_eq!(ClientIp::new().trust("10.0.0.0/33").err(), error);
///
/// let error = SetupError::HeaderName("x api key".to_owned());
/// assert_eq!(error.to_string(), "`x api key` cannot be the name of a header");
/// assert_eq!(Key::header("x api key").err(), Some(error));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// A network that is not written like `10.0.0.0/8`.
    Network(CidrError),
    /// A header name with characters that no header name has.
    HeaderName(String),
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::HeaderName(name) => {
                write!(f, "`{}` cannot be the name of a header", name.escape_debug())
            }
        }
    }
}

impl From<CidrError> for SetupError {
    fn from(error: CidrError) -> Self {
        Self::Network(error)
    }
}

impl std::error::Error for SetupError {}
