//! What a check answers.

use std::time::Duration;

/// Stands for "no wait will ever be long enough" in a field of microseconds.
const NEVER: u64 = u64::MAX;

/// The answer to a check. A refusal is a value like any other, not an error.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{Limit, State, Timestamp};
///
/// let limit: Limit = "2/s".parse()?;
/// let mut state = State::Empty;
/// let now = Timestamp::from_micros(1_700_000_000_000_000);
///
/// assert_eq!(limit.take(&mut state, now, 1).remaining(), 1);
/// assert_eq!(limit.take(&mut state, now, 1).remaining(), 0);
/// let refused = limit.take(&mut state, now, 1);
/// assert!(!refused.allowed());
/// assert_eq!(refused.limit(), 2);
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
/// assert_eq!(refused.reset_after(), Duration::from_secs(1));
/// // The same in microseconds, for those who pass them on.
/// assert_eq!((refused.retry_after_us(), refused.reset_after_us()), (Some(500_000), 1_000_000));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Decision {
    word: Word,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry_after_us: u64,
    pub(crate) reset_after_us: u64,
}

/// Whether a request may go ahead, in as many bytes as all else: a processor that has just stored one byte cannot load
/// the eight around it before that store is done, and decisions are copied by eights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u64)]
enum Word {
    No,
    Yes,
}

impl Decision {
    /// An answer that no limit had to give: allowed, with everything left.
    ///
    /// ```
    /// # use tidegate_core::Decision;
    /// let decision = Decision::unlimited();
    /// assert!(decision.allowed());
    /// assert_eq!(decision.remaining(), u64::MAX);
    /// ```
    pub const fn unlimited() -> Self {
        Self::admitted(u64::MAX, u64::MAX, 0)
    }

    /// A refusal that no wait will change.
    ///
    /// ```
    /// # use tidegate_core::Decision;
    /// let decision = Decision::blocked();
    /// assert!(!decision.allowed());
    /// assert_eq!(decision.retry_after(), None);
    /// ```
    pub const fn blocked() -> Self {
        Self::refused(0, 0, None, 0)
    }

    /// An admission, by a limit, a script or a failure policy.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Decision;
    /// let decision = Decision::admitted(100, 40, 36_000_000);
    /// assert!(decision.allowed());
    /// assert_eq!((decision.limit(), decision.remaining()), (100, 40));
    /// assert_eq!(decision.reset_after(), Duration::from_secs(36));
    /// ```
    pub const fn admitted(limit: u64, remaining: u64, reset_after_us: u64) -> Self {
        Self { word: Word::Yes, limit, remaining, retry_after_us: 0, reset_after_us }
    }

    /// The same from a limit that is only tried out: allowed, with what is left and the time of the reset as they are.
    ///
    /// ```
    /// # use tidegate_core::Decision;
    /// let refused = Decision::refused(100, 3, Some(500_000), 60_000_000);
    /// assert_eq!(refused.in_shadow(), Decision::admitted(100, 3, 60_000_000));
    /// ```
    #[must_use]
    pub const fn in_shadow(self) -> Self {
        Self::admitted(self.limit, self.remaining, self.reset_after_us)
    }

    /// A refusal; `None` for a cost that will never be admitted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Decision;
    /// let decision = Decision::refused(100, 0, Some(500_000), 60_000_000);
    /// assert!(!decision.allowed());
    /// assert_eq!(decision.retry_after(), Some(Duration::from_millis(500)));
    /// assert_eq!(Decision::refused(100, 0, None, 60_000_000).retry_after(), None); // never
    /// ```
    pub const fn refused(
        limit: u64,
        remaining: u64,
        retry_after_us: Option<u64>,
        reset_after_us: u64,
    ) -> Self {
        let retry_after_us = match retry_after_us {
            Some(us) => us,
            None => NEVER,
        };
        Self { word: Word::No, limit, remaining, retry_after_us, reset_after_us }
    }

    /// Whether the request may go ahead.
    pub const fn allowed(&self) -> bool {
        matches!(self.word, Word::Yes)
    }

    /// The ceiling: the burst of GCRA and the token bucket, the limit of the others.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Whole units left after this answer.
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The shortest wait after which the same cost would be admitted, if nobody else came. Zero when
    /// allowed; `None` when it will never be, because the cost is above the ceiling.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after_us() {
            Some(us) => Some(Duration::from_micros(us)),
            None => None,
        }
    }

    /// [`Decision::retry_after`] in whole microseconds, rounded up.
    pub const fn retry_after_us(&self) -> Option<u64> {
        if self.retry_after_us == NEVER { None } else { Some(self.retry_after_us) }
    }

    /// How long until everything is available again, if nobody else comes.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after_us)
    }

    /// [`Decision::reset_after`] in whole microseconds, rounded up.
    pub const fn reset_after_us(&self) -> u64 {
        self.reset_after_us
    }
}

/// The answer of a shaper: whether the request is queued, and how long it has to wait.
///
/// ```
/// use std::time::Duration;
/// use tidegate_core::{LeakyBucket, State, Timestamp};
///
/// let shaper: LeakyBucket = "2/s max-wait 500ms".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// assert!(shaper.reserve(&mut state, now, 1).accepted());
/// let second = shaper.reserve(&mut state, now, 1);
/// assert_eq!((second.delay(), second.delay_us()), (Duration::from_millis(500), 500_000));
/// let refused = shaper.reserve(&mut state, now, 1);
/// assert!(!refused.accepted());
/// assert_eq!(refused.retry_after(), Some(Duration::from_millis(500)));
/// assert_eq!(refused.retry_after_us(), Some(500_000));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[must_use = "an accepted reservation asks its holder to wait"]
pub struct Reservation {
    accepted: bool,
    delay_us: u64,
    /// `None`: no wait will ever be long enough.
    retry_after_us: Option<u64>,
    shadow_denied: bool,
}

impl Reservation {
    /// Whether the request is accepted; if so, it may proceed after [`Reservation::delay`].
    pub const fn accepted(&self) -> bool {
        self.accepted
    }

    /// How long an accepted request waits; zero when refused.
    pub const fn delay(&self) -> Duration {
        Duration::from_micros(self.delay_us)
    }

    /// [`Reservation::delay`] in whole microseconds, rounded up.
    pub const fn delay_us(&self) -> u64 {
        self.delay_us
    }

    /// After how long a refused request would be accepted. Zero when accepted, `None` for never.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.retry_after_us {
            Some(us) => Some(Duration::from_micros(us)),
            None => None,
        }
    }

    /// [`Reservation::retry_after`] in whole microseconds, rounded up.
    pub const fn retry_after_us(&self) -> Option<u64> {
        self.retry_after_us
    }

    /// Accepted without delay and without a queue.
    ///
    /// ```
    /// # use tidegate_core::Reservation;
    /// let reservation = Reservation::unlimited();
    /// assert!(reservation.accepted() && reservation.delay().is_zero());
    /// ```
    pub const fn unlimited() -> Self {
        Self::at(0)
    }

    /// A refusal that no wait will change.
    ///
    /// ```
    /// # use tidegate_core::Reservation;
    /// let reservation = Reservation::blocked();
    /// assert!(!reservation.accepted());
    /// assert_eq!(reservation.retry_after(), None);
    /// ```
    pub const fn blocked() -> Self {
        Self::refused(None)
    }

    /// A reservation that was made elsewhere.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Reservation;
    /// let reservation = Reservation::at(500_000);
    /// assert!(reservation.accepted());
    /// assert_eq!(reservation.delay(), Duration::from_millis(500));
    /// ```
    pub const fn at(delay_us: u64) -> Self {
        Self { accepted: true, delay_us, retry_after_us: Some(0), shadow_denied: false }
    }

    /// A refusal; `None` for a cost that is never accepted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::Reservation;
    /// let reservation = Reservation::refused(Some(500_000));
    /// assert!(!reservation.accepted());
    /// assert_eq!(reservation.retry_after(), Some(Duration::from_millis(500)));
    /// assert_eq!(Reservation::refused(None), Reservation::blocked());
    /// ```
    pub const fn refused(retry_after_us: Option<u64>) -> Self {
        Self { accepted: false, delay_us: 0, retry_after_us, shadow_denied: false }
    }

    /// The same in shadow mode: accepted without delay, whatever the queue answered.
    ///
    /// ```
    /// # use tidegate_core::Reservation;
    /// let refused = Reservation::refused(Some(500_000)).in_shadow();
    /// assert!(refused.accepted() && refused.delay().is_zero());
    /// assert!(refused.shadow_denied());
    /// assert!(!Reservation::at(500_000).in_shadow().shadow_denied()); // it would only have waited
    /// ```
    pub const fn in_shadow(self) -> Self {
        Self { shadow_denied: !self.accepted, ..Self::at(0) }
    }

    /// Whether it was accepted only because the queue is [tried out](Reservation::in_shadow).
    ///
    /// ```
    /// # use tidegate_core::Reservation;
    /// assert!(Reservation::blocked().in_shadow().shadow_denied());
    /// assert!(!Reservation::blocked().shadow_denied()); // it was refused
    /// ```
    pub const fn shadow_denied(&self) -> bool {
        self.shadow_denied
    }
}
