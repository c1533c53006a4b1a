//! Time zones by name, as plain tables for the core.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tidegate_core::{Transition, Zone};

/// A name that is no IANA time zone.
///
/// ```
/// use tidegate::{UnknownZone, zone};
///
/// assert!(zone("Europe/Berlin").is_ok_and(|zone| zone.name() == "Europe/Berlin"));
/// assert_eq!(zone("Europe/Atlantis"), Err(UnknownZone("Europe/Atlantis".to_owned())));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownZone(pub String);

/// The IANA time zone of a name, so that days with a clock change are right.
///
/// The system's time zone data is used where there is some, and a copy built in otherwise.
///
/// ```
/// use tidegate::{Every, Limiter, Quota, zone};
///
/// let monthly = Quota::calendar(100_000, Every::Month, zone("Europe/Berlin")?)?;
/// let limiter = Limiter::builder(monthly).build()?;
/// assert!(limiter.check("user-42").allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn zone(name: &str) -> Result<Zone, UnknownZone> {
    let unknown = || UnknownZone(name.chars().take(80).collect());
    let zone = TimeZone::get(name).map_err(|_| unknown())?;
    // Instants lie between 1970 and 2255; a day of margin on both sides, since an edge may lie outside.
    let margin_s = 100 * 86_400;
    let first = Timestamp::from_second(-margin_s).map_err(|_| unknown())?;
    let last =
        Timestamp::from_second((1_i64 << 53) / 1_000_000 + margin_s).map_err(|_| unknown())?;
    let transitions: Vec<Transition> = zone
        .following(first)
        .take_while(|change| change.timestamp() <= last)
        .map(|change| Transition {
            at_us: change.timestamp().as_microsecond(),
            offset_seconds: change.offset().seconds(),
        })
        .collect();
    let built = Zone::changing(zone.to_offset(first).seconds(), &transitions);
    built.map(|built| built.named(name)).map_err(|_| unknown())
}

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no time zone: expected a name like Europe/Berlin", self.0.escape_debug())
    }
}

impl std::error::Error for UnknownZone {}
