//! Why something adaptive could not be built. Each rejected value has a text of its own.

use std::fmt;
use std::time::Duration;

/// A setting that makes no sense.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::adaptive::AdaptiveError as Error;
///
/// let second = Duration::from_secs(1);
/// for (error, said) in [
///     (Error::RampNotFinite { x_lo: 0.0, x_hi: f64::NAN }, "expected two finite numbers"),
///     (Error::RampFlat { x_lo: 2.0, x_hi: 1.0 }, "the second has to be above the first"),
///     (Error::RampShare(1.5), "share 1.5 of the limit"),
///     (Error::RampRises { y_lo: 0.1, y_hi: 0.2 }, "it would give more as the load gets worse"),
///     (Error::ZeroLimit, "limit is 0"),
///     (Error::LimitTooLarge(u64::MAX), "is above 2^53"),
///     (Error::ZeroTimeConstant, "time constant is 0"),
///     (Error::OpensFaster { close: 2 * second, open: second }, "is faster than closing within 2s"),
///     (Error::Alpha(2.0), "alpha 2"),
///     (Error::Play(0.7), "play 0.7"),
///     (Error::HoldTooLong(7200 * second), "expected at most 1h"),
///     (Error::AbsencePressure(7.0), "pressure 7 of a missing signal"),
///     (Error::ZeroFailures, "failures is 0"),
///     (Error::NoChain, "give at least one source"),
///     (Error::TooManyChains(17), "17 chains: expected at most 16"),
///     (Error::SameName("db".to_owned()), "two chains are called `db`"),
///     (Error::ChainName(String::new()), "expected 1 to 64 bytes"),
///     (Error::ZeroFloor, "floor is 0"),
///     (Error::ZeroGuard, "guard is 0"),
///     (Error::Pool(0), "pool of 0"),
///     (Error::NotAState, "no state of these chains"),
/// ] {
///     assert!(error.to_string().contains(said), "{error}");
/// }
/// ```
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum AdaptiveError {
    /// An end of a ramp is NaN or infinite, or the two are too far apart for a number.
    RampNotFinite {
        /// Where it begins.
        x_lo: f64,
        /// Where it ends.
        x_hi: f64,
    },
    /// A ramp does not end after it begins.
    RampFlat {
        /// Where it begins.
        x_lo: f64,
        /// Where it ends.
        x_hi: f64,
    },
    /// A share of the limit lies outside 0..1.
    RampShare(f64),
    /// A ramp gives more when it gets worse.
    RampRises {
        /// The share where all is well.
        y_lo: f64,
        /// The share at worst.
        y_hi: f64,
    },
    /// The limit is 0.
    ZeroLimit,
    /// The limit is above 2^53.
    LimitTooLarge(u64),
    /// A time constant is 0.
    ZeroTimeConstant,
    /// Opening would be faster than closing.
    OpensFaster {
        /// The time constant of closing.
        close: Duration,
        /// The time constant of opening.
        open: Duration,
    },
    /// A fixed weight lies outside 0..1, or is 0.
    Alpha(f64),
    /// The play lies outside 0..0.5.
    Play(f64),
    /// The hold after a close is above an hour.
    HoldTooLong(Duration),
    /// The pressure of an absent signal lies outside 0..1.
    AbsencePressure(f64),
    /// Failures that count as a sign are 0.
    ZeroFailures,
    /// There is no chain.
    NoChain,
    /// There are more chains than 16.
    TooManyChains(usize),
    /// Two chains have the same name.
    SameName(String),
    /// A chain's name is empty or longer than 64 bytes.
    ChainName(String),
    /// The floor is 0.
    ZeroFloor,
    /// The guard over all keys is 0.
    ZeroGuard,
    /// The pool is 0 or above a million.
    Pool(u64),
    /// The bytes are no state of these chains.
    NotAState,
}

impl fmt::Display for AdaptiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RampNotFinite { x_lo, x_hi } => {
                write!(f, "ramp from {x_lo} to {x_hi}: expected two finite numbers")
            }
            Self::RampFlat { x_lo, x_hi } => {
                write!(f, "ramp from {x_lo} to {x_hi}: the second has to be above the first")
            }
            Self::RampShare(share) => {
                write!(f, "share {share} of the limit: expected a number from 0 to 1")
            }
            Self::RampRises { y_lo, y_hi } => write!(
                f,
                "ramp from share {y_lo} to {y_hi}: it would give more as the load gets worse; \
                 the second may not be above the first"
            ),
            Self::ZeroLimit => f.write_str("limit is 0: give at least 1"),
            Self::LimitTooLarge(n) => write!(f, "limit {n} is above 2^53 and could not be exact"),
            Self::ZeroTimeConstant => {
                f.write_str("time constant is 0: give at least 1ns, or a fixed alpha of 1")
            }
            Self::OpensFaster { close, open } => write!(
                f,
                "opening within {open:?} is faster than closing within {close:?}: open at most \
                 as fast as you close"
            ),
            Self::Alpha(alpha) => {
                write!(f, "alpha {alpha}: expected a number above 0 and at most 1")
            }
            Self::Play(play) => write!(f, "play {play}: expected a number from 0 to 0.5"),
            Self::HoldTooLong(hold) => write!(f, "hold {hold:?}: expected at most 1h"),
            Self::AbsencePressure(pressure) => {
                write!(f, "pressure {pressure} of a missing signal: expected a number from 0 to 1")
            }
            Self::ZeroFailures => f.write_str("failures is 0: give at least 1"),
            Self::NoChain => f.write_str("no chain: give at least one source"),
            Self::TooManyChains(n) => write!(f, "{n} chains: expected at most 16"),
            Self::SameName(name) => write!(f, "two chains are called `{}`", name.escape_debug()),
            Self::ChainName(name) => write!(
                f,
                "chain name `{}`: expected 1 to 64 bytes",
                name.chars().take(80).collect::<String>().escape_debug()
            ),
            Self::ZeroFloor => f.write_str(
                "floor is 0: give at least 1, or nothing gets through that could show that all \
                 is well again",
            ),
            Self::ZeroGuard => f.write_str("guard is 0: give at least 1, or leave it out"),
            Self::Pool(n) => write!(f, "pool of {n}: expected 1 to 1000000 places"),
            Self::NotAState => f.write_str("these bytes are no state of these chains"),
        }
    }
}

impl std::error::Error for AdaptiveError {}
