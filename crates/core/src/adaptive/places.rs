//! Places at an upstream that a fleet shares, as one node keeps them from one request to the next.

use std::time::Duration;

/// How long a place is kept for a next request. A busy node needs it again at once; a quiet one must not keep it from
/// others, who are refused meanwhile.
const SPARE_US: u64 = 2_000;

/// How long a busy node may pass a place from one request to the next, so that others get their turn.
const TENURE_US: u64 = 1_000_000;

/// How long a refusal holds for this node: a flood of refused requests asks the store two hundred times a second.
const FULL_US: u64 = 5_000;

/// How long the counter has not answered when this node goes by its share. A single slow answer is none of its failures:
/// the others still hold what it has granted them, and a share on top would be more than all places.
const OUTAGE_US: u64 = 500_000;

/// The places of one node: those that its requests use, and those that are spare for a moment. Each has a lease `L` from
/// the counter that all nodes share. Times are of a clock that is never set, in µs.
///
/// ```
/// use tidegate_core::adaptive::{Entry, Places};
///
/// let mut places = Places::default();
/// let is_held = |_: &&str| true;
/// assert!(matches!(places.enter(0, is_held), Entry::Ask)); // the counter grants one
/// let place = places.granted("lease 1", 0);
/// assert_eq!(places.leave(place, 1_000), None); // kept for the next request
/// assert!(places.has_room(2_000) && (places.in_use(), places.spare()) == (0, 1));
/// let Entry::Place(place) = places.enter(2_000, is_held) else { panic!() };
/// assert_eq!(places.leave(place, 1_500_000), Some("lease 1")); // others want it too
///
/// let place = places.granted("lease 2", 2_000_000);
/// assert_eq!(places.leave(place, 2_001_000), None);
/// assert!(places.take_unneeded(2_002_000).is_empty());
/// assert_eq!(places.take_unneeded(2_003_000), ["lease 2"]);
/// assert!(places.take_spare().is_empty()); // all of them, as at the end
/// assert_eq!(Places::<&str>::LEASE.as_secs(), 5); // whoever dies keeps none longer
/// ```
#[derive(Debug)]
pub struct Places<L> {
    in_use: u64,
    /// The longest spare first.
    spare: Vec<Spare<L>>,
    full_until_us: u64,
    /// The first time that the counter did not answer, since it last did.
    unanswered_since_us: Option<u64>,
}

/// A place that a request uses. It goes back by [`Places::leave`].
///
/// ```
/// # use tidegate_core::adaptive::{Place, Places};
/// let place: Place<&str> = Places::default().granted("lease 1", 0);
/// assert_eq!(*place.lease(), "lease 1");
/// ```
#[derive(Debug)]
#[must_use = "a place that is not given back stays in use"]
pub struct Place<L> {
    lease: L,
    granted_us: u64,
    /// Whether it may serve a next request.
    is_reusable: bool,
}

#[derive(Debug)]
struct Spare<L> {
    place: Place<L>,
    since_us: u64,
}

/// What a request finds.
///
/// ```
/// # use tidegate_core::adaptive::{Entry, Places};
/// let mut places: Places<()> = Places::default();
/// places.refused(0);
/// assert!(matches!(places.enter(4_000, |()| true), Entry::Full));
/// assert!(matches!(places.enter(5_000, |()| true), Entry::Ask));
/// ```
#[derive(Debug)]
pub enum Entry<L> {
    /// A place.
    Place(Place<L>),
    /// None: the shared counter has to be asked, whose answer is [granted](Places::granted) or
    /// [refused](Places::refused).
    Ask,
    /// None, and the counter had none a moment ago.
    Full,
}

impl<L> Default for Places<L> {
    fn default() -> Self {
        Self { in_use: 0, spare: Vec::new(), full_until_us: 0, unanswered_since_us: None }
    }
}

impl<L> Place<L> {
    /// Its lease.
    pub const fn lease(&self) -> &L {
        &self.lease
    }
}

impl<L> Places<L> {
    /// The life of a lease that is not renewed: when the places of a dead node are free again.
    pub const LEASE: Duration = Duration::from_secs(5);

    /// A place for a request, if one is spare whose lease has not ended.
    pub fn enter(&mut self, now_us: u64, is_held: impl Fn(&L) -> bool) -> Entry<L> {
        while let Some(Spare { place, .. }) = self.spare.pop() {
            if is_held(&place.lease) {
                self.in_use += 1;
                return Entry::Place(place);
            }
        }
        if now_us < self.full_until_us { Entry::Full } else { Entry::Ask }
    }

    /// Whether a request may find a place. Takes none.
    pub fn has_room(&self, now_us: u64) -> bool {
        !self.spare.is_empty() || now_us >= self.full_until_us
    }

    /// The counter has granted a lease for one place.
    pub fn granted(&mut self, lease: L, now_us: u64) -> Place<L> {
        self.answered();
        self.in_use += 1;
        Place { lease, granted_us: now_us, is_reusable: true }
    }

    /// The counter has answered, whatever it said.
    pub const fn answered(&mut self) {
        self.unanswered_since_us = None;
    }

    /// The counter has not answered. Whether this node [goes by its share](Self::is_by_share); until then there is no
    /// place for a moment, as after a refusal.
    ///
    /// ```
    /// # use tidegate_core::adaptive::{Entry, Places};
    /// let mut places: Places<()> = Places::default();
    /// assert!(!places.unanswered(0) && !places.unanswered(499_999));
    /// assert!(matches!(places.enter(500_000, |()| true), Entry::Full));
    /// assert!(places.unanswered(500_000)); // half a second without any answer
    /// assert!(places.is_unanswered() && places.is_by_share(500_000));
    /// places.answered();
    /// assert!(!places.is_unanswered() && !places.unanswered(600_000));
    /// ```
    pub fn unanswered(&mut self, now_us: u64) -> bool {
        self.unanswered_since_us.get_or_insert(now_us);
        let is_by_share = self.is_by_share(now_us);
        if !is_by_share {
            self.full_until_us = now_us + FULL_US;
        }
        is_by_share
    }

    /// Whether the counter did not answer when it was last asked.
    pub const fn is_unanswered(&self) -> bool {
        self.unanswered_since_us.is_some()
    }

    /// Whether the counter has not answered for so long that this node goes by its share: half a second.
    pub fn is_by_share(&self, now_us: u64) -> bool {
        let since_us = self.unanswered_since_us;
        since_us.is_some_and(|since_us| now_us.saturating_sub(since_us) >= OUTAGE_US)
    }

    /// The counter cannot be asked: this node has its share of all places, whatever leases it still has. `None` if they are
    /// in use. Such a place serves one request, since the counter does not know it.
    ///
    /// ```
    /// # use tidegate_core::adaptive::Places;
    /// let mut places = Places::default();
    /// let place = places.granted_by_share((), 0, 1).unwrap();
    /// assert!(places.granted_by_share((), 0, 1).is_none());
    /// assert_eq!(places.leave(place, 1), Some(()));
    /// ```
    pub fn granted_by_share(&mut self, lease: L, now_us: u64, share: u64) -> Option<Place<L>> {
        if self.in_use >= share {
            return None;
        }
        self.in_use += 1;
        Some(Place { lease, granted_us: now_us, is_reusable: false })
    }

    /// The counter has no place.
    pub fn refused(&mut self, now_us: u64) {
        self.answered();
        self.full_until_us = now_us + FULL_US;
    }

    /// A request has ended. The lease comes back if it has to be released, and is kept for a next request otherwise.
    pub fn leave(&mut self, place: Place<L>, now_us: u64) -> Option<L> {
        self.in_use = self.in_use.saturating_sub(1);
        let is_due = now_us.saturating_sub(place.granted_us) >= TENURE_US;
        if is_due || !place.is_reusable {
            return Some(place.lease);
        }
        self.spare.push(Spare { place, since_us: now_us });
        None
    }

    /// The leases of places that nobody has needed for a while, to be released.
    pub fn take_unneeded(&mut self, now_us: u64) -> Vec<L> {
        let is_unneeded = |spare: &Spare<L>| now_us.saturating_sub(spare.since_us) >= SPARE_US;
        let count = self.spare.iter().take_while(|spare| is_unneeded(spare)).count();
        self.spare.drain(..count).map(|spare| spare.place.lease).collect()
    }

    /// All leases that no request uses, to be released.
    pub fn take_spare(&mut self) -> Vec<L> {
        self.spare.drain(..).map(|spare| spare.place.lease).collect()
    }

    /// How many places requests use.
    pub const fn in_use(&self) -> u64 {
        self.in_use
    }

    /// How many places are held for next requests.
    pub const fn spare(&self) -> usize {
        self.spare.len()
    }
}
