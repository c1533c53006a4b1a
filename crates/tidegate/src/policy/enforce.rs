//! Which callers a policy is enforced for while it is rolled out: a part of them, by a fixed hash.

use std::convert::Infallible;
use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;

use siphasher::sip::SipHasher24;

/// One percent in millionths.
const ONE_PERCENT: u32 = 10_000;

/// A part of all callers: above 0 % and up to 100 %, in steps of 0.0001 %.
///
/// ```
/// use tidegate::{Percent, PercentError};
///
/// let half_a_percent: Percent = "0.5%".parse()?;
/// assert_eq!((half_a_percent.millionths(), half_a_percent.to_string()), (5_000, "0.5%".to_owned()));
/// assert_eq!("10".parse::<Percent>(), Err(PercentError::NoSign));
/// assert_eq!("110%".parse::<Percent>(), Err(PercentError::OutOfBounds));
/// assert_eq!("0%".parse::<Percent>(), Err(PercentError::Zero));
/// assert_eq!("ten%".parse::<Percent>(), Err(PercentError::NoNumber));
/// # Ok::<(), PercentError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Percent {
    millionths: u32,
}

/// Why a text is no [`Percent`].
///
/// ```
/// use tidegate::{Percent, PercentError};
///
/// let error = "0.1".parse::<Percent>().unwrap_err();
/// assert_eq!(error, PercentError::NoSign);
/// assert_eq!(error.to_string(), "has no percent sign: write it as in `10%` or `0.5%`");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PercentError {
    /// The sign behind the number is missing.
    NoSign,
    /// Before the sign is no number of at most four decimal places.
    NoNumber,
    /// It is above 100 %.
    OutOfBounds,
    /// It is 0 %.
    Zero,
}

impl Percent {
    /// In millionths: 10 % are 100,000.
    pub const fn millionths(self) -> u32 {
        self.millionths
    }

    /// Whether a caller belongs to this part, under a policy: if its hash lies below it. So whoever is in at 10 % is in at
    /// 20 %, on every node and after a restart, and each policy divides the callers anew.
    ///
    /// The hash is SipHash-2-4 with a key of zeroes, of the length of the policy's name as 8 bytes (the lowest first), the
    /// name, and the identifier. It lies below if hash × 1,000,000 < millionths × 2^64.
    ///
    /// ```
    /// # use tidegate::{Percent, PercentError};
    /// let (tenth, fifth): (Percent, Percent) = ("10%".parse()?, "20%".parse()?);
    /// let users: Vec<String> = (0..10_000).map(|n| format!("user-{n}")).collect();
    /// let within = |part: Percent| users.iter().filter(|user| part.includes("api", user.as_bytes())).count();
    /// assert_eq!((within(tenth), within(fifth)), (1025, 1983));
    /// # Ok::<(), PercentError>(())
    /// ```
    pub fn includes(self, policy: &str, identifier: &[u8]) -> bool {
        let mut hasher = SipHasher24::new_with_key(&[0; 16]);
        hasher.write(&u64::try_from(policy.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.write(policy.as_bytes());
        hasher.write(identifier);
        u128::from(hasher.finish()) * 1_000_000 < u128::from(self.millionths) << 64
    }
}

impl FromStr for Percent {
    type Err = PercentError;

    fn from_str(text: &str) -> Result<Self, PercentError> {
        let number = text.trim().strip_suffix('%').ok_or(PercentError::NoSign)?.trim_end();
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 4 {
            return Err(PercentError::NoNumber);
        }
        let whole: u32 = whole.parse().map_err(|_| PercentError::OutOfBounds)?;
        let decimals: u32 = format!("{decimals:0<4}").parse().unwrap_or(0);
        match whole.checked_mul(ONE_PERCENT).and_then(|it| it.checked_add(decimals)) {
            Some(0) => Err(PercentError::Zero),
            Some(millionths) if millionths <= 100 * ONE_PERCENT => Ok(Self { millionths }),
            _ => Err(PercentError::OutOfBounds),
        }
    }
}

impl TryFrom<&str> for Percent {
    type Error = PercentError;

    fn try_from(text: &str) -> Result<Self, PercentError> {
        text.parse()
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millionths / ONE_PERCENT, self.millionths % ONE_PERCENT);
        match rest {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{whole}.{}%", format!("{rest:04}").trim_end_matches('0')),
        }
    }
}

impl fmt::Display for PercentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSign => "has no percent sign: write it as in `10%` or `0.5%`",
            Self::NoNumber => {
                "is no percentage: write it as in `10%` or `0.5%`, with at most four decimal places"
            }
            Self::OutOfBounds => "is above 100%: expected 0.0001% to 100%",
            Self::Zero => "enforces nothing: put the policy in shadow mode instead",
        })
    }
}

impl std::error::Error for PercentError {}

impl From<Infallible> for PercentError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
