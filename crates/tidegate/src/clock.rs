//! Where time comes from. Nothing else in tidegate reads a clock, so that a test, a replay or a simulation can
//! bring its own.

mod fast;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[doc(inline)]
pub use tidegate_core::Timestamp;

/// A source of instants. It may step back: limits stay in force.
///
/// ```
/// use tidegate::{Clock, Limiter, Timestamp};
///
/// /// The time of the log that is replayed.
/// struct LogTime(u64);
///
/// impl Clock for LogTime {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_micros(self.0)
///     }
/// }
///
/// let limiter = Limiter::builder("5/h").clock(LogTime(1_700_000_000_000_000)).build()?;
/// assert!(limiter.check("user-42").allowed());
/// # Ok::<(), tidegate::LimitError>(())
/// ```
pub trait Clock: Send + Sync {
    /// The current instant.
    fn now(&self) -> Timestamp;

    /// Microseconds since some origin of the clock's own, for the time that has passed in this process. It does not
    /// step when the time is set, but may go back by some microseconds; a clock that is never set can leave it as it is.
    fn steady_us(&self) -> u64 {
        self.now().as_micros()
    }
}

/// The system's clock. On x86-64 Linux, where the kernel itself trusts the processor's time stamp counter, read
/// from that counter and brought back in line with the system's clock ten times a second: a read costs a
/// third of a call to the system's.
///
/// ```
/// use tidegate::{Clock, SystemClock, Timestamp};
///
/// let now = SystemClock.now();
/// assert!(now > Timestamp::from_micros(1_700_000_000_000_000)); // November 2023
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(fast::now_us())
    }

    #[inline]
    fn steady_us(&self) -> u64 {
        fast::steady_us()
    }
}

/// Whole microseconds, as many as a `u64` holds.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// A clock that stands still until it is moved. Clones share their time.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Limiter, ManualClock};
///
/// let clock = ManualClock::default();
/// let limiter = Limiter::builder("1/s").clock(clock.clone()).build()?;
/// assert!(limiter.check("user-42").allowed());
/// assert!(!limiter.check("user-42").allowed());
/// clock.advance(Duration::from_secs(1));
/// assert!(limiter.check("user-42").allowed());
/// # Ok::<(), tidegate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl Default for ManualClock {
    /// Starts in November 2023, well away from the edges of time.
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_700_000_000_000_000))
    }
}

impl ManualClock {
    /// A clock that shows `now`.
    ///
    /// ```
    /// # use tidegate::{Clock, ManualClock, Timestamp};
    /// let clock = ManualClock::at(Timestamp::from_micros(42));
    /// assert_eq!(clock.now(), Timestamp::from_micros(42));
    /// ```
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.as_micros())))
    }

    /// Moves the clock forward, by whole microseconds rounded up, and never past [`Timestamp::MAX`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Clock, ManualClock};
    /// let clock = ManualClock::default();
    /// let (copy, before) = (clock.clone(), clock.now());
    /// clock.advance(Duration::from_secs(90));
    /// assert_eq!(copy.now().since(before), Duration::from_secs(90)); // clones share their time
    /// ```
    pub fn advance(&self, span: Duration) {
        let later = |us| Some((Timestamp::from_micros(us) + span).as_micros());
        // It names an instant in any case, so that this cannot fail.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    /// Sets the clock, forward or back.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate::{Clock, Limiter, ManualClock};
    /// let clock = ManualClock::default();
    /// let limiter = Limiter::builder("1/h").clock(clock.clone()).build()?;
    /// assert!(limiter.check("user-42").allowed());
    /// clock.set(clock.now() - Duration::from_secs(86_400));
    /// assert!(!limiter.check("user-42").allowed()); // a clock that steps back gives nothing back
    /// # Ok::<(), tidegate::LimitError>(())
    /// ```
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_micros(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn steady_us(&self) -> u64 {
        (**self).steady_us()
    }
}
