//! Waiting instead of refusing. Cancel-safe: a future that is dropped has spent nothing.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tidegate_core::{Decision, Reservation};

use crate::clock::Clock;
use crate::key::AsKey;
use crate::limiter::Limiter;
use crate::shaper::Shaper;

/// The longest sleep between two looks, so that a refund, a reset or a new limit is noticed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The cost is above the ceiling: no wait would ever be long enough.
///
/// ```
/// use tidegate::{Limiter, NeverReady};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = Limiter::new("1000/h burst 10")?;
/// let answer = limiter.until_ready_n("mailer", 11).await;
/// assert_eq!(answer, Err(NeverReady { cost: 11, limit: 10 }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeverReady {
    /// What was asked for.
    pub cost: u64,
    /// The most that can ever be granted at once.
    pub limit: u64,
}

impl<C: Clock> Limiter<C> {
    /// Waits until one unit of `key` is admitted, and spends it.
    ///
    /// Each wait is as long as `retry_after` plus up to a tenth, so that callers that wait for the same key do not all
    /// retry at once. Dropping the future spends nothing. Needs tokio's timer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = tidegate::Limiter::new("1000/s burst 1")?;
    /// for _ in 0..3 {
    ///     limiter.until_ready("mailer").await?;
    ///     println!("sending");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn until_ready(&self, key: impl AsKey) -> Result<Decision, NeverReady> {
        self.until_ready_n(key, 1).await
    }

    /// Waits until `cost` units of `key` are admitted at once, and spends them. While an [adaptive](Limiter::follow) limit
    /// has less than that in force, it waits for more; an error is only what the whole limit would never admit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = tidegate::Limiter::new("1000/h burst 10")?;
    /// let decision = limiter.until_ready_n("mailer", 10).await?;
    /// assert_eq!(decision.remaining(), 0);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn until_ready_n(&self, key: impl AsKey, cost: u64) -> Result<Decision, NeverReady> {
        loop {
            let decision = self.check_n(&key, cost);
            if decision.allowed() {
                return Ok(decision);
            }
            // The most that is admitted at once while all of the key's limit is in force.
            let ceiling = self.with_limits(key.as_key().as_ref(), |whole, _, _| whole.ceiling());
            let wait = match (decision.retry_after(), ceiling) {
                (Some(wait), _) => jittered(wait).min(LONGEST_SLEEP),
                (None, ceiling) if cost > ceiling => {
                    return Err(NeverReady { cost, limit: ceiling });
                }
                // More than is in force of an adaptive limit, for an unknown time.
                (None, _) => jittered(LONGEST_SLEEP),
            };
            tokio::time::sleep(wait).await;
        }
    }
}

impl<C: Clock> Shaper<C> {
    /// Makes a reservation in the queue of `key` and waits for its turn. A refusal is answered at once.
    ///
    /// If the future is dropped while it waits, the reservation is cancelled, unless another caller has queued behind it
    /// and already knows when its turn is. Needs tokio's timer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let exports = tidegate::Shaper::new("2/s max-wait 5s")?;
    /// for page in 0..3 {
    ///     if exports.schedule("user-42").await.accepted() {
    ///         println!("exporting page {page}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn schedule(&self, key: impl AsKey) -> Reservation {
        let queued = self.queue(key.as_key().as_ref(), 1);
        let reservation = queued.reservation;
        if reservation.accepted() && !reservation.delay().is_zero() {
            tokio::time::sleep(reservation.delay()).await;
        }
        queued.keep();
        reservation
    }
}

/// A wait and up to a tenth of it.
fn jittered(wait: Duration) -> Duration {
    let thousandths = u32::try_from(RandomState::new().hash_one(0) % 100).unwrap_or(0);
    wait + wait * thousandths / 1000
}

impl fmt::Display for NeverReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cost, limit } = self;
        write!(f, "cost {cost} is above the limit of {limit}: it would wait for ever")
    }
}

impl std::error::Error for NeverReady {}
