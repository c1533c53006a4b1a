//! What a store keeps per key: small, and with a byte form for snapshots and swap stores.

mod bytes;
mod counts;
mod log;
mod permits;
mod slots;
mod stamps;

pub(crate) use log::LogChange;
pub use log::{Log, Run};
pub use permits::{Permit, Permits};
pub(crate) use slots::SlotChange;
pub use slots::Slots;

use crate::time::Timestamp;

/// The state of one key under one limit. A key that was never seen, or that is fully replenished, is
/// [`State::Empty`].
///
/// ```
/// use tidegate_core::{Limit, LimitError, State, Timestamp};
///
/// let after_one = |limit: &str| {
///     let mut state = State::default(); // State::Empty
///     let now = Timestamp::from_micros(1_700_000_000_000_000);
///     let _ = limit.parse::<Limit>()?.take(&mut state, now, 1);
///     Ok::<State, LimitError>(state)
/// };
/// assert!(matches!(after_one("5/h")?, State::Arrival(_)));
/// assert!(matches!(after_one("fixed-window 5/h")?, State::Window(_)));
/// assert!(matches!(after_one("sliding-window 5/h")?, State::Slots(_)));
/// assert!(matches!(after_one("sliding-log 5/h")?, State::Log(_)));
/// assert!(matches!(after_one("concurrency 5")?, State::Permits(_)));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// Nothing spent.
    #[default]
    Empty,
    /// GCRA, token bucket and leaky bucket: spent ahead up to this instant.
    Arrival(Arrival),
    /// Fixed window and calendar quota: spent in the window with this end.
    Window(Window),
    /// Sliding window: spent per slot.
    Slots(Slots),
    /// Sliding log: when each unit was spent.
    Log(Log),
    /// Concurrency: which permits are held, and until when.
    Permits(Permits),
}

/// An instant as whole ticks and an exact fraction `frac / scale` of one tick.
///
/// ```
/// use tidegate_core::{Arrival, Limit, State, Timestamp};
///
/// let limit: Limit = "3/s".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let _ = limit.take(&mut state, now, 1);
/// // Spent ahead by a third of a second: 333,333 µs and one third.
/// let ticks = now.as_micros() + 333_333;
/// let arrival = Arrival { ticks, frac: 1, scale: 3, tick_us: 1 };
/// assert_eq!(state.arrival(), Some(arrival));
/// assert_eq!(arrival.end_us(), ticks + 1);
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Arrival {
    /// Whole ticks since the Unix epoch.
    pub ticks: u64,
    /// The fraction of a tick, in units of `1 / scale`.
    pub frac: u64,
    /// The denominator of the fraction. Kept with it, so that a changed limit can read it.
    pub scale: u64,
    /// The length of a tick in µs: 1 or 1000.
    pub tick_us: u64,
}

/// A count, and the end of the window it belongs to in µs since the Unix epoch.
///
/// ```
/// use tidegate_core::{Limit, State, Timestamp, Window};
///
/// let limit: Limit = "fixed-window 5/min".parse()?;
/// let now = Timestamp::from_micros(1_700_000_000_000_000); // 20 s into its minute
/// let mut state = State::Empty;
/// let _ = limit.take(&mut state, now, 2);
/// assert_eq!(state.window(), Some(Window { end: now.as_micros() + 40_000_000, count: 2 }));
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// The end of the window; from then on the count is void.
    pub end: u64,
    /// What was spent in the window.
    pub count: u64,
}

/// What a decision writes: small, copied, and applied only if the whole check is admitted.
///
/// ```
/// use tidegate_core::{Change, Limit, State, Timestamp};
///
/// let limit: Limit = "concurrency 1 lease 30s".parse()?;
/// let (mut state, now) = (State::Empty, Timestamp::from_micros(1_700_000_000_000_000));
/// let (_, change) = limit.decide(&state, now, 1);
/// assert!(change.writes());
/// assert!(change.permit().is_some_and(|permit| permit.cost == 1));
/// state.apply(change);
/// assert_eq!(limit.decide(&state, now, 1).1, Change::KEEP); // a refusal writes nothing
/// # Ok::<(), tidegate_core::LimitError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change(Write);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Write {
    Keep,
    Arrival(Arrival),
    Window(Window),
    Slots(SlotChange),
    Log(LogChange),
    Permit(Permit),
}

impl Change {
    /// Writes nothing.
    pub const KEEP: Self = Self(Write::Keep);

    /// Whether applying this would write anything.
    pub const fn writes(&self) -> bool {
        !matches!(self.0, Write::Keep)
    }

    /// The permit that this change grants, if it is one.
    pub const fn permit(&self) -> Option<Permit> {
        match self.0 {
            Write::Permit(permit) if permit.cost > 0 => Some(permit),
            _ => None,
        }
    }

    pub(crate) fn arrival(next: Option<Arrival>) -> Self {
        Self(next.map_or(Write::Keep, Write::Arrival))
    }

    pub(crate) fn window(next: Option<Window>) -> Self {
        Self(next.map_or(Write::Keep, Write::Window))
    }

    pub(crate) const fn slots(change: SlotChange) -> Self {
        Self(Write::Slots(change))
    }

    pub(crate) const fn log(change: LogChange) -> Self {
        Self(Write::Log(change))
    }

    pub(crate) const fn grant(permit: Permit) -> Self {
        Self(Write::Permit(permit))
    }
}

impl State {
    /// The arrival of GCRA, token bucket and leaky bucket, if that is what is kept.
    pub const fn arrival(&self) -> Option<Arrival> {
        match self {
            Self::Arrival(arrival) => Some(*arrival),
            _ => None,
        }
    }

    /// The window of fixed windows and calendar quotas, if that is what is kept.
    pub const fn window(&self) -> Option<Window> {
        match self {
            Self::Window(window) => Some(*window),
            _ => None,
        }
    }

    /// Writes what a decision asked for.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limits: [Limit; 2] = ["5/h".parse()?, "1/h".parse()?];
    /// let mut states = [State::Empty, State::Empty];
    /// // Decide both before anything is written, then write both.
    /// let changes = [0, 1].map(|n| limits[n].decide(&states[n], now, 1).1);
    /// states.iter_mut().zip(changes).for_each(|(state, change)| state.apply(change));
    /// assert!(!limits[1].peek(&states[1], now, 1).allowed());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn apply(&mut self, change: Change) {
        match change.0 {
            Write::Keep => {}
            Write::Arrival(arrival) => *self = Self::Arrival(arrival),
            Write::Window(window) => *self = Self::Window(window),
            Write::Slots(change) => Slots::apply(self, change),
            Write::Log(change) => Log::apply(self, change),
            Write::Permit(permit) => Permits::apply(self, permit),
        }
    }

    /// Forgets what was spent. Permits keep their next number, so that a holder from before cannot give back the
    /// place of one from after.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit: Limit = "5/h".parse()?;
    /// let mut state = State::Empty;
    /// let _ = limit.take(&mut state, now, 5);
    /// state.reset();
    /// assert_eq!(state, State::Empty);
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn reset(&mut self) {
        match self {
            Self::Permits(permits) => permits.held.clear(),
            _ => *self = Self::Empty,
        }
    }

    /// Gives a permit of a concurrency limit back. `false` if it was not held any more.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit: Limit = "concurrency 1".parse()?;
    /// let mut state = State::Empty;
    /// let (_, change) = limit.decide(&state, now, 1);
    /// state.apply(change);
    /// let id = change.permit().map_or(0, |permit| permit.id);
    /// assert!(state.release(id));
    /// assert!(!state.release(id)); // given back already
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn release(&mut self, permit_id: u64) -> bool {
        match self {
            Self::Permits(permits) => permits.release(permit_id),
            _ => false,
        }
    }

    /// The instant from which this state says no more than [`State::Empty`]: dropping it then loses
    /// nothing.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limit: Limit = "2/s".parse()?;
    /// let mut state = State::Empty;
    /// let decision = limit.take(&mut state, now, 1);
    /// assert_eq!(state.idle_from(), now + Duration::from_millis(500));
    /// assert_eq!(state.idle_from(), now + decision.reset_after());
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn idle_from(&self) -> Timestamp {
        Timestamp::from_micros(match self {
            Self::Empty => 0,
            Self::Arrival(arrival) => arrival.end_us(),
            Self::Window(window) => window.end,
            Self::Slots(slots) => slots.end_us(),
            Self::Log(log) => log.end_us(),
            Self::Permits(permits) => permits.end_us(),
        })
    }

    /// The memory this state holds beside itself, in bytes.
    ///
    /// ```
    /// # use tidegate_core::{Limit, State, Timestamp};
    /// # let now = Timestamp::from_micros(1_700_000_000_000_000);
    /// let limits: [Limit; 2] = ["5/h".parse()?, "sliding-log 5/h".parse()?];
    /// let bytes = limits.map(|limit| {
    ///     let mut state = State::Empty;
    ///     let _ = limit.take(&mut state, now, 1);
    ///     state.heap_bytes()
    /// });
    /// assert!(bytes[0] == 0 && bytes[1] > 0); // an instant fits the state, a log does not
    /// # Ok::<(), tidegate_core::LimitError>(())
    /// ```
    pub fn heap_bytes(&self) -> usize {
        match self {
            Self::Empty | Self::Arrival(_) | Self::Window(_) => 0,
            Self::Slots(slots) => slots.heap_bytes(),
            Self::Log(log) => log.heap_bytes(),
            Self::Permits(permits) => permits.heap_bytes(),
        }
    }
}

impl AsRef<Self> for State {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsMut<Self> for State {
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Arrival {
    /// The first whole microsecond at or after this instant.
    pub const fn end_us(&self) -> u64 {
        let ticks = self.ticks.saturating_add((self.frac > 0) as u64);
        ticks.saturating_mul(self.tick_us)
    }
}

/// Kept small by [`counts`] and [`stamps`]: a store that keeps a lock and an owner beside it has one cache line per state.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<State>() == 40);
